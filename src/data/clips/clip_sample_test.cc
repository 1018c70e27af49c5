#include "data/clips/clip_sample.h"

#include <doctest/doctest.h>

#include "base/temporary_folder.h"
#include "data/clips/clip_rows.h"

namespace spillway::data {
namespace {

// Two channels of one frame of 2 x 2, and two rows of text of width 3.
Clip usual_clip() {
  Clip clip{.header = {.latents = {2, 1, 2, 2}, .text_rows = 2}};
  clip.latents = {1, 2, 3, 4, 10, 20, 30, 40};
  clip.text = {1, 2, 3, 4, 5, 6};
  return clip;
}

FlowOptions usual_options() { return {.text_len = 4, .seed = 5, .latents_mean = {1, -2}, .latents_std = {2, 0.3F}}; }

ClipSample prepared(Clip clip, const FlowOptions& options, int64_t sample = 3, std::optional<float> timestep = {}) {
  return prepare_sample(std::move(clip), 11, options, make_flow_table(options.flow_shift), sample, timestep);
}

void check_same(const ClipSample& a, const ClipSample& b) {
  CHECK(a.shape == b.shape);
  CHECK(a.latents == b.latents);
  CHECK(a.noise == b.noise);
  CHECK(a.timestep == b.timestep);
  CHECK(a.sigma == b.sigma);
  CHECK(a.text == b.text);
  CHECK(a.image == b.image);
  CHECK(a.first_frame == b.first_frame);
  CHECK(a.image_rows == b.image_rows);
}

}  // namespace

TEST_CASE("latents are normalised by channel with 1 / std in f32, unless the row says that they are") {
  const FlowOptions options = usual_options();
  const float inverse = 1 / 0.3F;
  CHECK(prepared(usual_clip(), options).latents ==
        std::vector<float>{0, 0.5F, 1, 1.5F, 12 * inverse, 22 * inverse, 32 * inverse, 42 * inverse});
  Clip normalised = usual_clip();
  normalised.header.is_normalised = true;
  CHECK(prepared(normalised, options).latents == usual_clip().latents);
  FlowOptions without = options;
  without.latents_mean.clear();
  without.latents_std.clear();
  CHECK(prepared(usual_clip(), without).latents == usual_clip().latents);
}

TEST_CASE("a text is padded with zeros, cut, or all zeros where it is dropped") {
  FlowOptions options = usual_options();
  ClipSample sample = prepared(usual_clip(), options);
  CHECK(sample.text == std::vector<float>{1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0});
  CHECK((sample.text_rows == 2 && sample.text_len == 4 && !sample.text_dropped));
  options.text_len = 1;
  sample = prepared(usual_clip(), options);
  CHECK(sample.text == std::vector<float>{1, 2, 3});
  CHECK(sample.text_rows == 1);
  options.training_cfg_rate = 1;
  options.text_len = 2;
  sample = prepared(usual_clip(), options);
  CHECK(sample.text == std::vector<float>(6));
  CHECK((sample.text_rows == 0 && sample.text_dropped));
}

TEST_CASE("draws depend on the sample's number and not on the row, and a row's own noise and timestep come first") {
  const FlowOptions options = usual_options();
  const ClipSample a = prepared(usual_clip(), options, 3), b = prepared(usual_clip(), options, 3),
                   c = prepared(usual_clip(), options, 4);
  check_same(a, b);
  CHECK(a.noise != c.noise);
  CHECK(a.timestep != c.timestep);
  std::vector<float> noise(8);
  fill_noise(5, 3, 0, noise);
  CHECK(a.noise == noise);
  CHECK(a.timestep == draw_flow(options, make_flow_table(3), 3).timestep);
  CHECK(a.sigma == a.timestep / 1000);
  CHECK((a.row == 11 && a.sample == 3));
  CHECK(prepared(usual_clip(), options, 3, 250.F).timestep == 250);

  Clip own = usual_clip();
  own.noise = {1, 2, 3, 4, 5, 6, 7, 8};
  own.header.has_noise = own.header.has_timestep = true;
  own.timestep = 400;
  const ClipSample d = prepared(own, options, 3, 250.F);
  CHECK(d.noise == own.noise);
  CHECK((d.timestep == 400 && d.sigma == 0.4F));
}

TEST_CASE("a sample that is written is a row that gives its bits again") {
  const TemporaryFolder folder;
  FlowOptions options = usual_options();
  Clip clip = usual_clip();
  clip.header.image_rows = 2;
  clip.image = {0.1F, 0.2F, 0.3F, 0.4F};
  clip.first_frame = {9, 8, 7, 6};
  const ClipSample with_image = prepared(clip, options);
  write_sample(folder.path() / sample_file_name(17), with_image);
  const ClipDemands demands{.channels = 2, .max_positions = 8, .text_width = 3, .image_width = 2, .image_channels = 1};
  const ClipRows rows({DatasetConfig{.path = (folder.path() / "000017.safetensors").string()}}, demands, "datasets");
  check_same(prepared(rows.read(0), options, 99), with_image);

  options.training_cfg_rate = 1;
  const ClipSample dropped = prepared(usual_clip(), options);
  write_sample(folder.path() / "dropped.safetensors", dropped);
  const ClipDemands text_only{.channels = 2, .max_positions = 8, .text_width = 3};
  options.training_cfg_rate = 0;
  const ClipRows again({DatasetConfig{.path = (folder.path() / "dropped.safetensors").string()}}, text_only,
                       "datasets");
  check_same(prepared(again.read(0), options, 99), dropped);
}

}  // namespace spillway::data

#include "config/keys.h"
#include "config/unsupported_keys.h"

namespace spillway::config {
namespace {

KeySection data_section() {
  KeySection section{"Data", {}};
  section.keys = {
      key<&Spelled::datasets>("datasets", "the rows to train on; the keys of an entry have their own table").required(),
      key<&Spelled::test_datasets>("test_datasets", "the rows to evaluate on"),
      key<&Spelled::pretraining_dataset>("pretraining_dataset",
                                         "a path or a list: text to pretrain on, streamed, in place of datasets")
          .or_path()
          .path(),
      key<&Spelled::pretraining_sample_concatenation>(
          "pretraining_sample_concatenation", "without packing: texts to pretrain on share rows and see each other"),
      key<&Spelled::streaming>("streaming", "rows are read as training goes, in bounded memory; needs max_steps")
          .alias({"dataset_streaming"}),
      key<&Spelled::streaming_multipack_buffer_size>("streaming_multipack_buffer_size",
                                                     "rows of a stream that are shuffled together, and packed together")
          .alias({"pretrain_multipack_buffer_size"})
          .least(1)
          .most(1 << 24),
      key<&Spelled::dataset_name>("dataset_name", "TRL's: the file or folder of the one dataset").path(),
      key<&Spelled::dataset_config>("dataset_config", "TRL's: the config of that dataset, where it has several"),
      key<&Spelled::dataset_train_split>("dataset_train_split", "TRL's: the split of that dataset; left out: train"),
      key<&Spelled::dataset_test_split>(
          "dataset_test_split",
          "TRL's: the split that eval_strategy evaluates on; left out: test, of a folder that has it"),
      key<&Spelled::val_set_size>("val_set_size",
                                  "rows of `datasets` kept for evaluation: a share below 1, or a number")
          .least(0),
      key<&Spelled::test_split_size>("test_split_size", "TRL's: val_set_size of the rows of `datasets`").above(0),
      key<&Spelled::chat_template>("chat_template",
                                   "a built-in template, `jinja`, or `tokenizer_default`, which is also the default"),
      key<&Spelled::chat_template_jinja>("chat_template_jinja", "a template of your own: a file, or its text")
          .alias({"chat_template_path"})
          .path(),
      key<&Spelled::chat_template_kwargs>("chat_template_kwargs",
                                          "variables that chat templates see, such as enable_thinking")
          .alias({"trl.chat_template_kwargs"}),
      key<&Spelled::eot_tokens>("eot_tokens",
                                "tokens that end a turn; left out: those that the template ends answers with"),
      key<&Spelled::train_on_inputs>("train_on_inputs", "prompts are targets, too"),
      key<&Spelled::completion_only_loss>("completion_only_loss",
                                          "TRL's: only completions are targets; left out: where rows have them"),
      key<&Spelled::assistant_only_loss>("assistant_only_loss",
                                         "TRL's: only what the template marks as generated is a target"),
      key<&Spelled::dataset_text_field>("dataset_text_field", "TRL's: the column of plain text"),
      key<&Spelled::dataset_exact_deduplication>("dataset_exact_deduplication",
                                                 "of rows with equal tokens and labels only the first stays"),
      key<&Spelled::shuffle_merged_datasets>("shuffle_merged_datasets", "shuffle the rows of all datasets together")
          .alias({"shuffle_dataset"}),
      key<&Spelled::skip_prepare_dataset>(
          "skip_prepare_dataset",
          "of online training, which makes its prompts as it goes on in any case; not yet elsewhere"),
      key<&Spelled::curriculum_sampling>("curriculum_sampling", "rows come in file order"),
      key<&Spelled::group_by_length>("group_by_length", "the rows of a step are of like length"),
      key<&Spelled::train_sampling_strategy>("train_sampling_strategy",
                                             "TRL's: the order of rows; sequential is curriculum_sampling"),
      key<&Spelled::data_seed>("data_seed", "of the order of rows; left out: seed").least(0),
      key<&Spelled::dataloader_drop_last>(
          "dataloader_drop_last",
          "leave out the last micro-batch of an epoch, and of an evaluation, where it is smaller"),
      key<&Spelled::dataset_prepared_path>("dataset_prepared_path",
                                           "a folder that keeps tokenised rows from run to run")
          .path(),
      key<&Spelled::dataset_processes>("dataset_processes", "threads that tokenise; left out: one a core")
          .alias({"dataset_num_proc"})
          .least(1)
          .most(1024),
  };
  return section;
}

KeySection length_section() {
  KeySection section{"Length and batches", {}};
  section.keys = {
      key<&Spelled::sequence_len>("sequence_len",
                                  "tokens of the longest row; by axolotl's rules longer rows are dropped")
          .least(2)
          .most(1 << 24),
      key<&Spelled::eval_sequence_len>("eval_sequence_len",
                                       "sequence_len of the rows of test_datasets; left out: sequence_len")
          .least(2)
          .most(1 << 24),
      key<&Spelled::max_length>("max_length", "TRL's: longer rows are cut, rows left without targets dropped")
          .alias({"max_seq_length", "trl.max_length"})
          .least(2)
          .most(1 << 24),
      key<&Spelled::excess_length_strategy>("excess_length_strategy", "what becomes of rows over sequence_len"),
      key<&Spelled::truncation_mode>("truncation_mode", "which end of a row over max_length stays"),
      key<&Spelled::min_sample_len>("min_sample_len", "shorter rows are dropped").least(1),
      key<&Spelled::sample_packing>("sample_packing", "several rows share a sequence and never see each other"),
      key<&Spelled::eval_sample_packing>("eval_sample_packing", "the same for evaluation; left out: as for training")
          .alias({"eval_packing"}),
      key<&Spelled::padding_free>("padding_free", "batches are one stream of tokens; the result is the same either way")
          .alias({"batch_flattening"}),
      key<&Spelled::micro_batch_size>("micro_batch_size", "rows per micro-batch")
          .alias({"per_device_train_batch_size", "train_batch_size", "per_gpu_train_batch_size"})
          .least(1)
          .most(1 << 20),
      key<&Spelled::gradient_accumulation_steps>("gradient_accumulation_steps", "micro-batches per optimizer step")
          .alias({"accelerator_config.gradient_accumulation_kwargs.num_steps"})
          .least(1)
          .most(1 << 20),
      key<&Spelled::dp_shard_size>(
          "dp_shard_size", "axolotl's: ranks that have rows of their own; one rank accumulates what they add up")
          .least(1)
          .most(1 << 20),
      key<&Spelled::dp_replicate_size>("dp_replicate_size", "the same of groups of such ranks; both multiply")
          .least(1)
          .most(1 << 20),
      key<&Spelled::batch_size>("batch_size", "rows of a step, in place of gradient_accumulation_steps")
          .least(1)
          .most(1 << 30),
      key<&Spelled::eval_batch_size>("eval_batch_size", "rows of an evaluation step; left out: micro_batch_size")
          .alias({"per_device_eval_batch_size", "per_gpu_eval_batch_size"})
          .least(1)
          .most(1 << 20),
      key<&Spelled::sample_packing_sequentially>("sample_packing_sequentially",
                                                 "sample_packing in the order of the rows"),
      key<&Spelled::sample_packing_bin_size>("sample_packing_bin_size",
                                             "rows that sample_packing puts into a sequence at most; 0: any number")
          .least(0)
          .most(1 << 24),
      key<&Spelled::packing>("packing", "TRL's packing: the lines that trl makes, in place of sample_packing"),
      key<&Spelled::packing_strategy>("packing_strategy",
                                      "what TRL's packing does with long rows: bfd cuts them, bfd_split splits them, "
                                      "wrapped joins all rows and cuts where a line is full"),
      key<&Spelled::packing_scope>("packing_scope", "rows that TRL's packing looks at together: 1000, as trl, or all"),
  };
  return section;
}

}  // namespace

std::vector<KeySection> data_sections() { return {data_section(), length_section()}; }

const KeySection& dataset_section() {
  static const KeySection kSection = [] {
    using D = SpelledDataset;
    using C = DatasetConfig;
    KeySection section{kDatasetSection, {}};
    section.keys = {
        key<&D::config, &C::path>("path", "a file, a folder, a pattern, or a data set in the Hugging Face cache")
            .required()
            .path(),
        key<&D::config, &C::type>("type",
                                  "see docs/data/formats.md; empty: rows are tokenised; left out: by the columns")
            .with_null(),
        key<&D::config, &C::name>("name", "the config of a data set that has several"),
        key<&D::config, &C::revision>("revision",
                                      "the snapshot of a data set in the Hugging Face cache; left out: main"),
        key<&D::config, &C::ds_type>("ds_type", "json, csv, text, parquet or arrow; left out: by the file's name"),
        key<&D::config, &C::data_dir>("data_dir", "a folder inside the data set, in which its files are looked for"),
        key<&D::config, &C::data_files>("data_files", "files inside the folder, or patterns"),
        key<&D::config, &C::columns>("columns", "columns that are kept; left out: all"),
        key<&D::config, &C::split>("split", "the split, or a part such as train[:10%]"),
        key<&D::config, &C::field>("field", "column of a completion; left out: text"),
        key<&D::config, &C::field_system>("field_system", "column of the system prompt"),
        key<&D::config, &C::field_instruction>("field_instruction", "column of the instruction"),
        key<&D::config, &C::field_input>("field_input", "column of the input"),
        key<&D::config, &C::field_output>("field_output", "column of the answer"),
        key<&D::config, &C::text_column>("text_column", "column of a pretraining text; left out: text"),
        key<&D::config, &C::field_messages>("field_messages", "column of the conversation"),
        key<&D::config, &C::field_prompt>("field_prompt", "column of a preference row's prompt"),
        key<&D::config, &C::field_chosen>("field_chosen", "column of the chosen completion"),
        key<&D::config, &C::field_rejected>("field_rejected", "column of the rejected completion"),
        key<&D::config, &C::field_completion>("field_completion", "column of an unpaired row's completion"),
        key<&D::config, &C::field_label>("field_label",
                                         "column that says whether an unpaired row's completion is wanted"),
        key<&D::config, &C::field_tools>("field_tools", "column of the tools that a conversation may call"),
        key<&D::config, &C::field_thinking>("field_thinking", "a message's property with its reasoning")
            .alias({"template_thinking_key"}),
        key<&D::config, &C::message_property_mappings>(
            "message_property_mappings", "property that the template reads: property of the row's messages"),
        key<&D::message_field_role>("message_field_role", "older spelling of message_property_mappings.role"),
        key<&D::message_field_content>("message_field_content", "older spelling of message_property_mappings.content"),
        key<&D::config, &C::roles>("roles", "role that the template knows: names that the rows use for it"),
        key<&D::config, &C::roles_to_train>("roles_to_train", "roles whose turns are targets"),
        key<&D::config, &C::train_on_eos>(
            "train_on_eos", "which end-of-text tokens are targets: of trained turns, all, the last, none"),
        key<&D::config, &C::train_on_eot>("train_on_eot",
                                          "which end-of-turn tokens are targets; left out: as train_on_eos"),
        key<&D::config, &C::message_field_training>("message_field_training",
                                                    "a message's property that says whether it is a target"),
        key<&D::config, &C::message_field_training_detail>("message_field_training_detail",
                                                           "a message's property with the spans that are targets"),
        key<&D::config, &C::drop_system_message>("drop_system_message", "leave system messages out"),
        key<&D::config, &C::split_thinking>("split_thinking",
                                            "take reasoning out of the content into its own property"),
        key<&D::config, &C::chat_template>("chat_template", "this dataset's own template"),
        key<&D::config, &C::chat_template_jinja>("chat_template_jinja",
                                                 "this dataset's own template: a file, or its text")
            .path(),
        key<&D::config, &C::shards>("shards", "deal the rows out to so many parts").least(1),
        key<&D::config, &C::shards_idx>("shards_idx", "the part that is taken, from 0").least(0),
        key<&D::config, &C::weight>("weight", "how often a row comes: 0.5 takes every other one, 2 each twice")
            .above(0)
            .most(1000),
        key<&D::config, &C::fraction>("fraction",
                                      "TRL's: the share of this data set in all rows; its first rows are taken, as "
                                      "many as no data set is too small for")
            .least(0),
        key<&D::config, &C::skip>("skip", "leave out so many first rows of the split").least(0),
        key<&D::config, &C::step_separator>("step_separator",
                                            "stepwise_supervised: text behind each step; left out: a line end"),
        key<&D::config, &C::max_completion_length>("max_completion_length", "stepwise_supervised: tokens of all steps")
            .least(1),
        key<&D::config, &C::train_on_last_step_only>("train_on_last_step_only",
                                                     "stepwise_supervised: only the last step has a label"),
    };
    add_unsupported(section);
    return section;
  }();
  return kSection;
}

}  // namespace spillway::config

#include "config/yaml.h"

#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <unordered_map>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "base/utf8.h"

namespace spillway::config {
namespace {

constexpr size_t kLargestText = kMiB;
constexpr int64_t kMaxNodes = 100'000;
constexpr size_t kDeepest = 64;
constexpr size_t kLongestKey = 256;

int64_t count_nodes(const YamlNode& node) {
  int64_t nodes = 1;
  for (const YamlNode& item : node.items) nodes += count_nodes(item);
  for (const auto& entry : node.entries) nodes += count_nodes(entry.value);
  return nodes;
}

bool is_null_word(const std::string& text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

void emit(YAML::Emitter& out, const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      out << YAML::Null;
      return;
    case YamlNode::Kind::kScalar:
      if (node.quoted) out << YAML::DoubleQuoted;
      out << node.text;
      return;
    case YamlNode::Kind::kList: {
      const bool has_maps = std::any_of(node.items.begin(), node.items.end(),
                                        [](const YamlNode& item) { return item.kind == YamlNode::Kind::kMap; });
      if (!has_maps) out << YAML::Flow;
      out << YAML::BeginSeq;
      for (const YamlNode& item : node.items) emit(out, item);
      out << YAML::EndSeq;
      return;
    }
    case YamlNode::Kind::kMap:
      out << YAML::BeginMap;
      for (const YamlNode::Entry& entry : node.entries) {
        out << YAML::Key << entry.key << YAML::Value;
        emit(out, entry.value);
      }
      out << YAML::EndMap;
      return;
  }
}

// Builds the tree from the library's events. Every open list or map is a frame; a map's frame holds the key that waits
// for its value.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string_view name) : name_(name) {}

  [[nodiscard]] bool has_document() const { return documents_ > 0; }
  [[nodiscard]] YamlNode take() { return std::move(root_); }
  // Returns the line of the scalar that was read last, from 1.
  [[nodiscard]] int last_line() const { return last_line_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      fail(mark, "one YAML document", "a second one", "remove the '---' line and what follows it");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { place(mark, anchor, YamlNode{}); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) fail(mark, "an alias of a finished value", "one inside itself", "write the value out");
    // Counted before it is copied: a bomb doubles with every alias.
    nodes_ += found->second.nodes;
    check_size(mark);
    place(mark, 0, found->second.value);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    last_line_ = mark.line + 1;
    const bool string_tag = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!string_tag) check_tag(mark, tag);
    if (!string_tag && is_null_word(value)) {
      place(mark, anchor, YamlNode{});
    } else {
      place(mark, anchor, YamlNode::scalar(value, string_tag));
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(mark, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(mark, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    YamlNode node;
    YAML::Mark mark;
    YAML::anchor_t anchor = 0;
    bool has_key = false;
    std::string key;
    int key_line = 0;
    std::map<std::string, int> lines{};  // of the keys so far
    std::vector<YamlNode> merged{};      // what `<<:` brought, below the map's own keys
  };
  struct Anchored {
    YamlNode value;
    int64_t nodes = 0;
  };

  [[noreturn]] void fail(const YAML::Mark& mark, std::string_view expected, std::string_view got,
                         std::string_view advice) const {
    throw input_error(fmt::format("{}:{}", name_, mark.line + 1), "expected {}, got {}; {}", expected, got, advice);
  }

  void check_size(const YAML::Mark& mark) const {
    if (nodes_ > kMaxNodes) {
      fail(mark, fmt::format("at most {} values", kMaxNodes), "more", "shorten it, or write fewer aliases");
    }
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    constexpr std::array<std::string_view, 9> kPlain = {"", "?", "!", "null", "bool", "int", "float", "seq", "map"};
    constexpr std::string_view kCore = "tag:yaml.org,2002:";
    const std::string_view short_tag = std::string_view(tag).substr(tag.starts_with(kCore) ? kCore.size() : 0);
    if (std::find(kPlain.begin(), kPlain.end(), short_tag) != kPlain.end()) return;
    fail(mark, "plain values", fmt::format("the tag {}", quote(tag)), "remove the tag");
  }

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (frames_.size() >= kDeepest) {
      fail(mark, fmt::format("at most {} levels of nesting", kDeepest), "a deeper one", "write a flatter config");
    }
    Frame frame;
    frame.node.kind = kind;
    frame.mark = mark;
    frame.anchor = anchor;
    frames_.push_back(std::move(frame));
  }

  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    for (const YamlNode& source : frame.merged) {
      for (const auto& entry : source.entries) {
        if (frame.lines.emplace(entry.key, entry.line).second) frame.node.entries.push_back(entry);
      }
    }
    place(frame.mark, frame.anchor, std::move(frame.node));
  }

  void place(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode node) {
    ++nodes_;
    check_size(mark);
    if (anchor != 0) {
      const int64_t nodes = count_nodes(node);
      anchored_nodes_ += nodes;
      if (anchored_nodes_ > kMaxNodes) fail(mark, "fewer anchors", "anchors inside anchors", "write fewer of them");
      anchors_[anchor] = {node, nodes};
    }
    if (frames_.empty()) {
      root_ = std::move(node);
    } else if (frames_.back().node.kind == YamlNode::Kind::kList) {
      frames_.back().node.items.push_back(std::move(node));
    } else if (!frames_.back().has_key) {
      take_key(mark, node);
    } else {
      take_value(mark, std::move(node));
    }
  }

  void take_key(const YAML::Mark& mark, const YamlNode& node) {
    Frame& frame = frames_.back();
    if (node.kind != YamlNode::Kind::kScalar) fail(mark, "a name before ':'", node.shown(), "write `key: value`");
    const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
    if (node.text.size() > kLongestKey || std::any_of(node.text.begin(), node.text.end(), is_control)) {
      fail(mark, fmt::format("a name of at most {} printable bytes before ':'", kLongestKey), node.shown(),
           "write `key: value`");
    }
    const int line = mark.line + 1;
    if (node.text != "<<") {
      const auto [first, is_new] = frame.lines.emplace(node.text, line);
      if (!is_new) {
        fail(mark, "every key once", fmt::format("{} again (first on line {})", quote(node.text), first->second),
             "remove one of them");
      }
    }
    frame.has_key = true;
    frame.key = node.text;
    frame.key_line = line;
  }

  void take_value(const YAML::Mark& mark, YamlNode node) {
    Frame& frame = frames_.back();
    frame.has_key = false;
    if (frame.key != "<<") {
      frame.node.entries.push_back({std::move(frame.key), frame.key_line, std::move(node)});
      return;
    }
    // The merge key of YAML 1.1: a map, or a list of maps of which the first wins.
    std::vector<YamlNode> sources;
    if (node.kind == YamlNode::Kind::kList) {
      sources = std::move(node.items);
    } else {
      sources.push_back(std::move(node));
    }
    for (YamlNode& source : sources) {
      if (source.kind != YamlNode::Kind::kMap) fail(mark, "a mapping after '<<:'", source.shown(), "name a mapping");
      frame.merged.push_back(std::move(source));
    }
  }

  std::string_view name_;
  YamlNode root_;
  int documents_ = 0, last_line_ = 1;
  int64_t nodes_ = 0, anchored_nodes_ = 0;
  std::vector<Frame> frames_;
  std::unordered_map<YAML::anchor_t, Anchored> anchors_;
};

// The library takes other encodings for UTF-16 and some control bytes for the end of the text, so both end here.
void check_text(std::string_view text, std::string_view name) {
  if (text.size() > kLargestText) {
    throw input_error(name, "expected at most {} of YAML, got {}; give a config file", format_bytes(kLargestText),
                      format_bytes(static_cast<int64_t>(text.size())));
  }
  const auto line_of = [&text](int64_t at) { return 1 + std::count(text.begin(), text.begin() + at, '\n'); };
  if (const int64_t at = first_invalid_utf8(text); at >= 0) {
    throw input_error(fmt::format("{}:{}", name, line_of(at)),
                      "expected UTF-8, got byte 0x{:02x}; save the file as UTF-8",
                      static_cast<unsigned char>(nth(text, at)));
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') {
      throw input_error(fmt::format("{}:{}", name, line_of(static_cast<int64_t>(i))),
                        "expected text, got control byte 0x{:02x}; remove it", byte);
    }
  }
}

void parse_into(TreeBuilder& builder, const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  while (parser.HandleNextDocument(builder)) {
  }
}

std::string without_space_behind(std::string_view text) {
  return std::string(text.substr(0, text.find_last_not_of(" \t\r\n") + 1));
}

InputError open_quote(std::string_view name, const TreeBuilder& builder) {
  return input_error(fmt::format("{}:{}", name, builder.last_line()),
                     "expected a closing quote for the text that begins here, got the end; close it");
}

// Throws what is said of a text that cannot be parsed.
[[noreturn]] void refuse(std::string_view text, std::string_view name, const YAML::Exception& error) {
  if (error.msg != YAML::ErrorMsg::EOF_IN_SCALAR) {
    throw input_error(fmt::format("{}:{}", name, error.mark.line + 1),
                      "expected YAML, got an error ({}); mend the line", error.msg);
  }
  // The error stands at the end of the text. Behind a line break the library takes the quote as closed, and says where
  // it begins.
  TreeBuilder builder(name);
  try {
    parse_into(builder, without_space_behind(text) + "\n");
  } catch (const YAML::Exception&) {  // a bracket around it is open, too
  }
  throw open_quote(name, builder);
}

// Throws InputError where `text`, which `builder` has read, ends inside a quote. Without the line breaks at its end the
// library refuses it, also where a backslash before them is left alone.
void check_quotes_are_closed(std::string_view text, std::string_view name, const TreeBuilder& builder) {
  try {
    TreeBuilder bare(name);
    parse_into(bare, without_space_behind(text));
  } catch (const YAML::Exception& error) {
    const bool ends_in_quote =
        error.msg == YAML::ErrorMsg::EOF_IN_SCALAR || error.msg.starts_with(YAML::ErrorMsg::INVALID_ESCAPE);
    if (ends_in_quote) throw open_quote(name, builder);
  }
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}

YamlNode* YamlNode::find(std::string_view key) {
  return const_cast<YamlNode*>(static_cast<const YamlNode*>(this)->find(key));
}

std::string YamlNode::shown() const {
  switch (kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kScalar:
      return quote(text);
    case Kind::kList:
      return fmt::format("a list of {}", items.size());
    case Kind::kMap:
      return "a mapping";
  }
  return {};
}

YamlNode YamlNode::scalar(std::string text, bool quoted) {
  YamlNode node;
  node.kind = Kind::kScalar;
  node.text = std::move(text);
  node.quoted = quoted;
  return node;
}

bool operator==(const YamlNode& a, const YamlNode& b) {
  const auto same_entry = [](const YamlNode::Entry& x, const YamlNode::Entry& y) {
    return x.key == y.key && x.value == y.value;
  };
  return a.kind == b.kind && a.text == b.text && a.items == b.items &&
         std::equal(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end(), same_entry);
}

YamlNode parse_yaml(std::string_view text, std::string_view name) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  check_text(text, name);
  TreeBuilder builder(name);
  try {
    parse_into(builder, std::string(text));
  } catch (const YAML::Exception& error) {
    refuse(text, name, error);
  }
  check_quotes_are_closed(text, name, builder);
  return builder.take();
}

std::string print_yaml(const YamlNode& node) {
  YAML::Emitter out;
  emit(out, node);
  return std::string(out.c_str()) + "\n";
}

}  // namespace spillway::config

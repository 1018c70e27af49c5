// Reads a record's messages as axolotl's type chat_template does, or makes them of columns.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/dataset_options.h"
#include "data/files/record_reader.h"
#include "text/left_out.h"

namespace spillway::data {

// Characters [begin, end], both included, of a message's text, and whether they are targets.
struct TrainedPart {
  int64_t begin = 0, end = 0;
  bool train = false;
};

// Returns the role in templates for a role in data sets: user for human, assistant for gpt; others are unchanged.
[[nodiscard]] std::string usual_role(const std::string& role);
// Returns true if a message has "weight": 0 (or false), which in OpenAI's format means that it is not learned. Throws
// InputError for a weight that is no number and no boolean.
[[nodiscard]] bool has_no_weight(const Record& record, const nlohmann::ordered_json& message);

struct Turn {
  nlohmann::ordered_json message;  // as the template sees it
  std::optional<bool> training;    // the row's own word on it
  // The row's marks for parts of its content and of its reasoning.
  std::optional<std::vector<TrainedPart>> parts, reasoning_parts;
  // Parts of its contents that are no text, which are not in `message`: images, tool calls and the like, with the name
  // that the part gives itself.
  struct Dropped {
    text::MessagePart part;
    std::string type;
  };
  std::vector<Dropped> dropped;

  [[nodiscard]] std::string role() const { return message["role"].get<std::string>(); }
};

struct Conversation {
  std::vector<Turn> turns;
  nlohmann::ordered_json tools;
};

// Immutable: any number of threads may use it at once.
class ConversationReader {
 public:
  explicit ConversationReader(const DatasetConfig& config);

  // Throws InputError naming the record's place and the expected content of its fields.
  [[nodiscard]] Conversation read(const Record& record) const;
  // Returns the template's role for a row's; the same if `roles` does not have it.
  [[nodiscard]] std::string mapped_role(const std::string& role) const;

 private:
  // Returns the record's list of messages. With field_instruction and field_output, a question, which is followed by a
  // line break and the input where there is one, and its answer, as LLaMA-Factory reads alpaca's columns.
  [[nodiscard]] nlohmann::ordered_json messages_of(const Record& record) const;
  [[nodiscard]] Turn read_turn(const Record& record, const nlohmann::ordered_json& message) const;
  [[nodiscard]] nlohmann::ordered_json mapped_message(const Record& record,
                                                      const nlohmann::ordered_json& message) const;

  DatasetConfig config_;
  std::map<std::string, std::string> mappings_;  // the template's property -> the row's
  std::map<std::string, std::string> roles_;     // the row's role -> the template's
};

}  // namespace spillway::data

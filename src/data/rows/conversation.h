// A record's messages as axolotl's type chat_template reads them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/dataset_options.h"
#include "data/files/record_reader.h"

namespace spillway::data {

// Characters [begin, end], both included, of a message's text, and whether they are targets.
struct TrainedPart {
  int64_t begin = 0, end = 0;
  bool train = false;
};

// The role that a template knows for what the field's data sets call it: human is user and gpt is assistant; another
// stays as it is.
[[nodiscard]] std::string usual_role(const std::string& role);
// Returns true where a message has "weight": 0, with which OpenAI's format says that it is not learned.
[[nodiscard]] bool has_no_weight(const nlohmann::ordered_json& message);

struct Turn {
  nlohmann::ordered_json message;  // as the template sees it
  std::optional<bool> training;    // the row's own word on it
  // What the row says of parts of its content and of its reasoning.
  std::optional<std::vector<TrainedPart>> parts, reasoning_parts;
  int64_t media = 0;  // images and the like in its contents, which are not in `message`

  [[nodiscard]] std::string role() const { return message["role"].get<std::string>(); }
};

struct Conversation {
  std::vector<Turn> turns;
  nlohmann::ordered_json tools;
};

// Immutable: any number of threads may read at once.
class ConversationReader {
 public:
  explicit ConversationReader(const DatasetConfig& config);

  // Throws InputError naming the record's place and what its fields should hold.
  [[nodiscard]] Conversation read(const Record& record) const;
  // The template's role for a row's; itself where `roles` does not have it.
  [[nodiscard]] std::string mapped_role(const std::string& role) const;

 private:
  [[nodiscard]] Turn read_turn(const Record& record, const nlohmann::ordered_json& message) const;
  [[nodiscard]] nlohmann::ordered_json mapped_message(const Record& record,
                                                      const nlohmann::ordered_json& message) const;

  DatasetConfig config_;
  std::map<std::string, std::string> mappings_;  // the template's property -> the row's
  std::map<std::string, std::string> roles_;     // the row's role -> the template's
};

}  // namespace spillway::data

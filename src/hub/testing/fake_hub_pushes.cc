// The part of the fake hub that takes files: repositories, LFS, commits.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "hub/testing/fake_hub.h"

namespace spillway::testing {
namespace {

using Json = nlohmann::json;

void answer_json(httplib::Response& response, const Json& json, int status = 200) {
  response.status = status;
  response.set_content(json.dump(), "application/json");
}

void refuse(httplib::Response& response, int status, const std::string& code, const std::string& message) {
  response.set_header("X-Error-Code", code);
  response.set_header("X-Error-Message", message);
  answer_json(response, {{"error", message}}, status);
}

// Takes the text before `end` off the front of `text`; all of it if `end` is not there.
std::string take_until(std::string& text, const std::string& end) {
  const size_t at = text.find(end);
  std::string front = text.substr(0, at);
  text = at == std::string::npos ? "" : text.substr(at + end.size());
  return front;
}

std::string from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<unsigned>(digits.find(c));
    count += 6;
    if (count >= 8) bytes += static_cast<char>(bits >> (count -= 8));
  }
  return bytes;
}

bool is_large(const std::string& path, int64_t size) {
  return path.ends_with(".safetensors") || path.ends_with(".gguf") || size > 5000;
}

}  // namespace

void FakeHub::answer_post(const httplib::Request& request, httplib::Response& response) {
  const std::lock_guard lock(mutex_);
  const std::string token = request.get_header_value("Authorization");
  if (request.path.starts_with("/parts/")) return join_parts(request.body, response);  // signed: without a token
  if (token == "Bearer " + reader) return refuse(response, 403, "", "you may not write here, " + reader);
  if (token != "Bearer " + writer) return refuse(response, 401, "", "Invalid credentials in Authorization header");
  if (request.path == "/api/repos/create") return create_repository(request.body, response);
  std::string path = request.path;
  if (path.find(".git/info/lfs/") != std::string::npos) {
    const std::string id = take_until(path, ".git/info/lfs/").substr(1);
    if (path == "objects/batch") return answer_batch(id, request.body, response);
    const Json asked = Json::parse(request.body);
    const auto found = objects_.find(asked["oid"]);
    return answer_json(response, {}, found != objects_.end() && found->second.size() == asked["size"] ? 200 : 404);
  }
  take_until(path, "/api/models/");
  const std::string owner = take_until(path, "/"), name = take_until(path, "/"), what = take_until(path, "/");
  const auto found = repositories.find("models/" + owner + "/" + name);
  if (found == repositories.end()) return refuse(response, 404, "RepoNotFound", "Repository not found");
  FakeRepository& repository = found->second;
  if (what == "branch") {
    repository.branches.insert(path);
    return answer_json(response, {});
  }
  if (!repository.branches.contains(path)) return refuse(response, 404, "RevisionNotFound", "Invalid rev id");
  if (what == "commit") return take_commit(repository, request.body, response);
  const Json asked = Json::parse(request.body);
  Json files = Json::array();
  for (const Json& file : asked["files"]) {
    const std::string path_of_file = file["path"];
    files.push_back({{"path", path_of_file},
                     {"uploadMode", is_large(path_of_file, file["size"]) ? "lfs" : "regular"},
                     {"shouldIgnore", path_of_file.ends_with(".ignored") || path_of_file.starts_with("ignored/")}});
  }
  answer_json(response, {{"files", files}});
}

void FakeHub::create_repository(const std::string& body, httplib::Response& response) {
  const Json asked = Json::parse(body);
  const std::string owner = asked["organization"].is_null() ? "me" : asked["organization"];
  const std::string id = owner + "/" + asked["name"].get<std::string>();
  const Json named = {{"name", id}, {"id", id}, {"url", endpoint() + "/" + id}};
  if (repositories.contains("models/" + id)) {
    response.set_header("X-Error-Message", "You already created this model repo");
    return answer_json(response, named, 409);
  }
  FakeRepository& made = repositories["models/" + id];
  made.files[".gitattributes"] = {"*.safetensors filter=lfs"};
  made.branches = {"main"};
  made.is_private = asked.value("visibility", "public") == "private";
  answer_json(response, named);
}

void FakeHub::answer_batch(const std::string& id, const std::string& body, httplib::Response& response) {
  const Json all = Json::parse(body);
  Json objects = Json::array();
  for (const Json& asked : all["objects"]) {
    const std::string oid = asked["oid"];
    const size_t size = asked["size"];
    Json object = {{"oid", oid}, {"size", size}};
    const std::string url = fmt::format("{}/objects/{}", store_address, oid);
    if (!objects_.contains(oid)) {
      Json upload = {{"href", url + "?signature=secret"}};
      if (size > part_bytes) {
        upload["href"] = fmt::format("{}/parts/{}", hub_address, oid);
        upload["header"]["chunk_size"] = fmt::format("{}", part_bytes);
        const size_t count = (size + part_bytes - 1) / part_bytes;
        for (size_t part = 1; part <= count; ++part)
          upload["header"][fmt::format("{}", part)] = fmt::format("{}/{}?signature=secret", url, part);
        parts_[oid].clear();
      }
      object["actions"] = {{"upload", upload},
                           {"verify", {{"href", fmt::format("{}/{}.git/info/lfs/verify", hub_address, id)}}}};
    }
    objects.push_back(std::move(object));
  }
  answer_json(response, {{"transfer", "multipart"}, {"objects", objects}});
}

void FakeHub::answer_put(const httplib::Request& request, httplib::Response& response) {
  const std::lock_guard lock(mutex_);
  std::string path = request.path;
  take_until(path, "/objects/");
  const std::string oid = take_until(path, "/");
  if (request.has_header("Authorization") || request.get_param_value("signature") != "secret")
    return refuse(response, 400, "", "Only one auth mechanism allowed");
  if (path.empty()) {
    if (sha256_of(request.body) != oid) return refuse(response, 400, "", "BadDigest");
    objects_[oid] = request.body;
  } else {
    parts_[oid][std::stoi(path)] = request.body;
    response.set_header("ETag", "\"" + sha256_of(request.body) + "\"");
  }
  response.set_content("", "application/xml");
}

void FakeHub::join_parts(const std::string& body, httplib::Response& response) {
  const Json asked = Json::parse(body);
  const std::string oid = asked["oid"];
  std::string whole;
  for (const Json& part : asked["parts"]) {
    const std::string& content = parts_[oid][part["partNumber"]];
    if (part["etag"] != "\"" + sha256_of(content) + "\"") return refuse(response, 400, "", "InvalidPart");
    whole += content;
  }
  if (sha256_of(whole) != oid) return refuse(response, 400, "", "BadDigest");
  objects_[oid] = whole;
  answer_json(response, {});
}

void FakeHub::take_commit(FakeRepository& repository, const std::string& body, httplib::Response& response) {
  std::istringstream lines(body);
  std::map<std::string, FakeFile> files = repository.files;
  for (std::string line; std::getline(lines, line);) {
    const Json item = Json::parse(line), &value = item["value"];
    if (item["key"] == "header") {
      if (value.value("parentCommit", repository.commit) != repository.commit)
        return refuse(response, 412, "", "A commit has happened since. Please refresh and try again.");
    } else if (item["key"] == "file") {
      files[value["path"]] = {from_base64(value["content"])};
    } else if (item["key"] == "lfsFile") {
      const auto object = objects_.find(value["oid"]);
      if (object == objects_.end())
        return refuse(response, 400, "", "LFS pointer pointed to a file that does not exist");
      files[value["path"]] = {object->second, true};
    } else {
      files.erase(value["path"].get<std::string>());
    }
  }
  repository.files = std::move(files);
  repository.commit = fmt::format("{:040x}", ++commits_);
  answer_json(response, {{"commitOid", repository.commit}, {"commitUrl", endpoint() + "/commit"}, {"success", true}});
}

}  // namespace spillway::testing

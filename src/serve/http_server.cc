#include "serve/http_server.h"

#include <chrono>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "serve/host_check.h"

namespace spillway::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kJson = "application/json";
constexpr std::chrono::milliseconds kTick{100};  // how soon a client that went away is noticed
constexpr const char* kNothing = ":\n\n";        // events that readers pass over

void answer_error(const RequestError& error, httplib::Response& response) {
  response.status = error.status();
  if (error.status() == 503) response.set_header("Retry-After", "1");
  response.set_content(json_text(error.json()), kJson);
}

void answer_json(const Json& json, httplib::Response& response) { response.set_content(json_text(json), kJson); }

RequestError host_error(const std::string& host) {
  return {403,
          fmt::format("[Host] expected localhost, 127.0.0.1 or the address that `spillway serve --host` names, got {}; "
                      "ask by one of them",
                      quote(host)),
          {},
          "wrong_host"};
}

// The error for a client that has closed its half of the connection. Only writing would show whether it has gone
// altogether, which a whole answer does at its end: it might be made for nobody. A client that still reads gets this
// error.
RequestError half_closed() {
  return {400,
          "[connection] expected to be open until the answer is there, got its end; close it after the answer, or ask "
          "for a stream",
          {},
          "connection_closed"};
}

// The method that a path of this server is asked by; empty for others.
std::string_view method_of(std::string_view path) {
  if (path == "/v1/chat/completions" || path == "/v1/completions") return "POST";
  if (path == "/v1/models" || path.starts_with("/v1/models/") || path == "/health") return "GET";
  return "";
}

// Returns the error of a request that reached no route.
RequestError error_of(const httplib::Request& request, int status) {
  switch (status) {
    case 404:
      if (const std::string_view method = method_of(request.path); !method.empty() && method != request.method)
        return {405,
                fmt::format("[{}] expected {}, got {}; send that", request.path, method, request.method),
                {},
                "method_not_allowed"};
      if (request.path == "/v1/embeddings")
        return {404,
                "[/v1/embeddings] expected a model of embeddings, got one that continues texts; ask a server of "
                "embeddings",
                {},
                "not_found"};
      return {404,
              fmt::format("[{}] expected a path of this server, got {}; ask /v1/chat/completions, /v1/completions, "
                          "/v1/models or /health",
                          request.method, quote(request.path)),
              {},
              "not_found"};
    case 413:
      return {413, "[request] expected a shorter body, got more than this server reads; shorten it", {}, "too_large"};
    case 500:
      return {500, "[server] expected to answer, got an error; see its messages", {}, "internal_error"};
    default:
      return {status, "[request] expected an HTTP request, got something else; correct it", {}, "bad_request"};
  }
}

}  // namespace

HttpServer::HttpServer(Api& api, const HttpOptions& options) : GuardedServer(options), api_(api) {
  add_routes();
  bind();
}

void HttpServer::add_routes() {
  set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    const std::string host = request.get_header_value("Host");
    if (!is_loopback_host(options().host) || is_host_answered(host, options().host)) return HandlerResponse::Unhandled;
    leave_unread(response);
    answer_error(host_error(host), response);
    return HandlerResponse::Handled;
  });
  const auto generating = [this](bool is_chat) {
    return [this, is_chat](const httplib::Request& request, httplib::Response& response,
                           const httplib::ContentReader& reader) { generate(request, response, reader, is_chat); };
  };
  Post("/v1/chat/completions", generating(true));
  Post("/v1/completions", generating(false));
  Get("/v1/models", [this](const auto&, httplib::Response& response) { answer_json(api_.models(), response); });
  Get("/v1/models/(.+)", [this](const httplib::Request& request, httplib::Response& response) {
    if (request.matches[1] == api_.name()) {
      answer_json(api_.model(), response);
    } else {
      answer_error({404,
                    fmt::format("[request: model] expected {}, got {}; ask for that", quote(api_.name()),
                                quote(request.matches[1].str())),
                    "model", "model_not_found"},
                   response);
    }
  });
  Get("/health", [this](const auto&, httplib::Response& response) { answer_json(api_.health(), response); });
  set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (!response.body.empty()) return;
    answer_error(error_of(request, response.status), response);
    if (response.status == 405) response.set_header("Allow", std::string(method_of(request.path)));
  });
  set_exception_handler([](const httplib::Request& request, httplib::Response& response, std::exception_ptr error) {
    try {
      std::rethrow_exception(std::move(error));
    } catch (const std::exception& what) {
      log_warning("{}: {}", request.path, what.what());
    } catch (...) {
      log_warning("{}: an error without a name", request.path);
    }
    answer_error(error_of(request, 500), response);
  });
}

void HttpServer::generate(const httplib::Request& request, httplib::Response& response,
                          const httplib::ContentReader& reader, bool is_chat) {
  if (request.is_multipart_form_data()) {
    leave_unread(response);
    answer_error({415, "[request] expected a body of JSON, got a form; send application/json"}, response);
    return;
  }
  std::string body;
  // A compressed or chunked body may be larger than announced.
  bool is_too_long = false;
  const bool is_read = reader([&](const char* bytes, size_t size) {
    is_too_long = static_cast<int64_t>(body.size() + size) > options().max_body_bytes;
    if (!is_too_long) body.append(bytes, size);
    return !is_too_long;
  });
  if (!is_read) {
    leave_unread(response);
    // The library takes a body that is not read to its end for a bad one.
    const int status = is_too_long ? 413 : response.status >= 400 ? response.status : 400;
    answer_error(error_of(request, status), response);
    return;
  }
  try {
    Conversation conversation = api_.begin(body, is_chat);
    if (conversation.request.stream) {
      answer_in_events(std::move(conversation), response);
    } else {
      answer_whole(conversation, response);
    }
  } catch (const RequestError& error) {
    answer_error(error, response);
  }
}

void HttpServer::answer_whole(const Conversation& conversation, httplib::Response& response) {
  std::vector<Piece> pieces;
  while (!conversation.reply->is_complete()) {
    for (Piece& piece : conversation.reply->wait(kTick)) pieces.push_back(std::move(piece));
    if (conversation.reply->is_complete() || connection().is_alive()) continue;
    conversation.reply->cancel();
    throw half_closed();
  }
  answer_json(api_.whole(conversation, pieces), response);
}

void HttpServer::answer_in_events(Conversation conversation, httplib::Response& response) {
  struct Stream {
    Conversation conversation;
    bool has_begun = false;
  };
  auto stream = std::make_shared<Stream>(Stream{std::move(conversation)});
  response.set_header("Cache-Control", "no-cache");
  response.set_chunked_content_provider(
      "text/event-stream",
      [this, stream](size_t, httplib::DataSink& sink) {
        const Conversation& answer = stream->conversation;
        std::string events;
        if (!std::exchange(stream->has_begun, true)) events = api_.first_events(answer);
        for (const Piece& piece : answer.reply->wait(events.empty() ? kTick : std::chrono::milliseconds(0)))
          events += api_.events(answer, piece);
        const bool is_complete = answer.reply->is_complete();
        if (is_complete) events += api_.last_events(answer);
        if (events.empty() && !connection().is_alive()) events = kNothing;
        const bool is_there = events.empty() || sink.write(events.data(), events.size());
        if (is_there && is_complete) sink.done();
        return is_there;
      },
      [stream](bool) { stream->conversation.reply->cancel(); });
}

}  // namespace spillway::serve

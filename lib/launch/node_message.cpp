// SPDX-License-Identifier: Apache-2.0
#include "launch/node_message.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace gantrain {

namespace {

using Json = nlohmann::json;

constexpr const char* kMark = "gantrain";  // of every message; its value is kVersion
constexpr int64_t kVersion = 1;

// Throws std::range_error where it is no whole number, or one that T cannot hold.
template <class T>
T whole(const Json& json) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<T>::max());
  const bool holds =
      json.is_number_unsigned()
          ? json.get<uint64_t>() <= kMost
          : json.is_number_integer() && json.get<int64_t>() >= std::numeric_limits<T>::min();
  if (!holds) throw std::range_error("no such number");
  return json.get<T>();
}

Json json_of(const RankProgress& p) {
  return Json{p.stopped, p.collectives, p.iteration, p.heartbeat_ns};
}

RankProgress progress_of(const Json& json) {
  return {.stopped = json.at(0).get<bool>(),
          .collectives = whole<int64_t>(json.at(1)),
          .iteration = whole<int64_t>(json.at(2)),
          .heartbeat_ns = whole<int64_t>(json.at(3))};
}

Json json_of(const Outcome& o) {
  return Json{{"code", o.code},
              {"error", o.error},
              {"restartable", o.restartable},
              {"resumable", o.resumable},
              {"cause", o.cause},
              {"iteration", o.iteration}};
}

Outcome outcome_of(const Json& json) {
  Outcome o;
  o.code = whole<int>(json.at("code"));
  o.error = json.at("error").get<std::string>();
  o.restartable = json.at("restartable").get<bool>();
  o.resumable = json.at("resumable").get<bool>();
  o.cause = json.at("cause").get<std::string>();
  o.iteration = whole<int64_t>(json.at("iteration"));
  return o;
}

Json json_of(const NodeReport& r) {
  return Json{{"node", r.node},
              {"kind", static_cast<int>(r.kind)},
              {"end", json_of(r.end)},
              {"progress", json_of(r.progress)},
              {"behind", r.behind},
              {"before", r.before},
              {"after", r.after},
              {"waiting", json_of(r.waiting)}};
}

// A number that is no kind counts as trouble of unknown cause.
NodeReport::Kind kind_of(int number) {
  const bool known = number >= 0 && number <= static_cast<int>(NodeReport::Kind::kCause);
  return known ? static_cast<NodeReport::Kind>(number) : NodeReport::Kind::kCause;
}

NodeReport report_of(const Json& json) {
  NodeReport r;
  r.node = whole<int64_t>(json.at("node"));
  r.kind = kind_of(whole<int>(json.at("kind")));
  r.end = outcome_of(json.at("end"));
  r.progress = progress_of(json.at("progress"));
  r.behind = json.at("behind").get<std::string>();
  r.before = json.at("before").get<std::string>();
  r.after = json.at("after").get<std::string>();
  r.waiting = progress_of(json.at("waiting"));
  return r;
}

Json json_of(const NodePlace& p) {
  return Json{{"node", p.node}, {"nodes", p.nodes}, {"ranks", p.ranks}, {"host", p.host}};
}

NodePlace place_of(const Json& json) {
  return {.node = whole<int64_t>(json.at("node")),
          .nodes = whole<int64_t>(json.at("nodes")),
          .ranks = whole<int64_t>(json.at("ranks")),
          .host = json.at("host").get<std::string>()};
}

bool has_report(NodeMessage::Word word) {
  return word == NodeMessage::Word::kReport || word == NodeMessage::Word::kVerdict;
}

}  // namespace

std::string NodePlace::text() const {
  return host.empty() ? fmt::format("node {}", node) : fmt::format("node {} ({})", node, host);
}

std::string encode(const NodeMessage& m) {
  Json json{{kMark, kVersion}, {"word", static_cast<int>(m.word)}};
  if (m.word != NodeMessage::Word::kBeat) {
    json["number"] = m.number;
    json["port"] = m.port;
    json["text"] = m.text;
    json["place"] = json_of(m.place);
  }
  if (has_report(m.word)) json["report"] = json_of(m.report);
  // What ranks and users write need not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<NodeMessage> decode(std::string_view line) {
  try {
    const Json json = Json::parse(line);
    if (whole<int64_t>(json.at(kMark)) != kVersion) return std::nullopt;
    NodeMessage m;
    const int word = whole<int>(json.at("word"));
    if (word < 0 || word > static_cast<int>(NodeMessage::Word::kEnded)) return std::nullopt;
    m.word = static_cast<NodeMessage::Word>(word);
    if (m.word == NodeMessage::Word::kBeat) return m;
    m.number = whole<int64_t>(json.at("number"));
    m.port = whole<int64_t>(json.at("port"));
    m.text = json.at("text").get<std::string>();
    m.place = place_of(json.at("place"));
    if (has_report(m.word)) m.report = report_of(json.at("report"));
    return m;
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const std::range_error&) {
    return std::nullopt;
  }
}

}  // namespace gantrain

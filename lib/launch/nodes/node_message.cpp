// SPDX-License-Identifier: Apache-2.0
#include "launch/nodes/node_message.h"

#include <fmt/format.h>

#include <stdexcept>

#include "config/message.h"

namespace gantrain {

namespace {

constexpr int kVersion = 2;

// A message on its way. The numbers come first, and say what else there is.
struct Envelope {
  int version = kVersion;
  int word = 0;
  NodeMessage message;
};

template <class Field>
void fields(Envelope& e, Field&& field) {
  using Word = NodeMessage::Word;
  field("gantrain", e.version);
  field("word", e.word);
  if (e.version != kVersion || e.word < 0 || e.word > static_cast<int>(Word::kEnded))
    throw std::logic_error("no message of a launcher");
  NodeMessage& m = e.message;
  m.word = static_cast<Word>(e.word);
  if (m.word == Word::kBeat) return;
  field("number", m.number);
  field("port", m.port);
  field("text", m.text);
  field("place", m.place);
  if (m.word == Word::kReport) field("deaths", m.deaths);
  if (m.word == Word::kVerdict) field("end", m.end);
}

}  // namespace

std::string NodePlace::text() const {
  return host.empty() ? fmt::format("node {}", node) : fmt::format("node {} ({})", node, host);
}

std::string encode(const NodeMessage& message) {
  const Json json =
      message_of(Envelope{.word = static_cast<int>(message.word), .message = message});
  // What ranks and users write need not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<NodeMessage> decode(std::string_view line) {
  try {
    return message_from<Envelope>(Json::parse(line)).message;
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const std::logic_error&) {
    return std::nullopt;
  }
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/death/verdict.h"

namespace gantrain {

// A launcher among those of a run.
struct NodePlace {
  int64_t node = 0;
  int64_t nodes = 1;
  int64_t ranks = 1;  // that it starts
  std::string host = {};

  std::string text() const;  // "node 1 (host)"
};

template <class Field>
void fields(NodePlace& p, Field&& field) {
  field("node", p.node);
  field("nodes", p.nodes);
  field("ranks", p.ranks);
  field("host", p.host);
}

// What one launcher tells another.
struct NodeMessage {
  enum class Word {
    kBeat,     // a sign of life
    kHello,    // to node 0, first of all: `place`
    kRefused,  // there will be no run: `text` says why
    kReady,    // to node 0: nothing of the last attempt is left here
    kStart,    // from node 0: `place`, attempt `number`, store at `port`, run folder `text`
    kReport,   // to node 0: `deaths`
    kAsk,      // from node 0: how far are your ranks?
    kVerdict,  // from node 0: `end`
    kAgain,    // from node 0: the ranks will be started again; `text` is to be printed
    kStop,     // `place`'s launcher was asked by signal `number` to save and stop
    kEnded     // no rank is left here; exit code `number`; `text` is to be printed
  };

  Word word = Word::kBeat;
  int64_t number = 0;
  int64_t port = 0;
  std::string text = {};
  NodePlace place = {};
  std::vector<Death> deaths = {};
  AttemptOutcome end = {};
};

// One line, with its newline.
std::string encode(const NodeMessage& message);
// Nothing if the line is not a message.
std::optional<NodeMessage> decode(std::string_view line);

}  // namespace gantrain

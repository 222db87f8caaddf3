// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launch/laggard.h"
#include "launch/outcome.h"

namespace gantrain {

// A launcher among those of a run.
struct NodePlace {
  int64_t node = 0;
  int64_t nodes = 1;
  int64_t ranks = 1;  // that it starts
  std::string host = {};

  std::string text() const;  // "node 1 (host)"
};

// What a launcher knows about trouble on its node.
struct NodeReport {
  enum class Kind {
    kProgress,  // no trouble; it was asked how far its ranks are
    kVictim,    // a rank failed as one does whose peer is gone
    kHang,      // no rank makes progress
    kCause      // a rank failed by itself
  };

  int64_t node = 0;
  Kind kind = Kind::kProgress;
  Outcome end = {};            // how the attempt ends if this is the cause
  RankProgress progress = {};  // of the rank of this node that has come least far
  std::string behind = {};     // that rank in words; "" if the node has no ranks yet
  // For a hang, and for a rank that waited until its time was over: what stands before and behind
  // the words for whichever rank of the run has come least far.
  std::string before = {};
  std::string after = {};
  RankProgress waiting = {};  // of the rank that waited
};

// What one launcher tells another.
struct NodeMessage {
  enum class Word {
    kBeat,     // a sign of life
    kHello,    // to node 0, first of all: `place`
    kRefused,  // there will be no run: `text` says why
    kReady,    // to node 0: nothing of the last attempt is left here
    kStart,    // from node 0: `place`, attempt `number`, store at `port`, run folder `text`
    kReport,   // to node 0: `report`
    kAsk,      // from node 0: how far are your ranks?
    kVerdict,  // from node 0: report.end is the first cause
    kAgain,    // from node 0: the ranks will be started again; `text` is to be printed
    kStop,     // `place`'s launcher was asked by signal `number` to save and stop
    kEnded     // no rank is left here; exit code `number`; `text` is to be printed
  };

  Word word = Word::kBeat;
  int64_t number = 0;
  int64_t port = 0;
  std::string text = {};
  NodePlace place = {};
  NodeReport report = {};
};

// One line, with its newline.
std::string encode(const NodeMessage& message);
// Nothing if the line is not a message.
std::optional<NodeMessage> decode(std::string_view line);

}  // namespace gantrain

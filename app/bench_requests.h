// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/value.h"

// What the thin program asks the trainer library to measure. The requests travel as the JSON text
// of message_of() (config/message.h). No torch.

namespace gantrain {

// A number of ranks that train a pair of networks. `config` is the Config::to_json() of each rank,
// without the keys of gradient synchronisation, which the benchmark sets.
struct BenchWorld {
  int64_t ranks = 2;
  Json config;
};

template <class Field>
void fields(BenchWorld& o, Field&& field) {
  field("ranks", o.ranks);
  field("config", o.config);
}

// A pair of networks to time.
struct BenchNet {
  std::string name;
  std::string about;
  std::vector<std::string> peer;  // arguments of the peer's script; empty: no peer
  std::vector<BenchWorld> worlds;
};

template <class Field>
void fields(BenchNet& o, Field&& field) {
  field("name", o.name);
  field("about", o.about);
  field("peer", o.peer);
  field("worlds", o.worlds);
}

// `bench ddp`: time iterations in every way of synchronising gradients.
struct BenchDdpRequest {
  std::vector<BenchNet> nets;
  int64_t rounds = 3;              // measurements of each way
  int64_t steps = 4;               // timed iterations of a measurement
  int64_t pairs = 6;               // measurements of ours and the peer's; 0: no peer
  std::string python;              // an interpreter that has torch, for the peer
  std::string script;              // the peer's script
  std::vector<std::string> unset;  // Peer::unset
  bool json = false;               // one JSON line, last on standard output
};

template <class Field>
void fields(BenchDdpRequest& o, Field&& field) {
  field("nets", o.nets);
  field("rounds", o.rounds);
  field("steps", o.steps);
  field("pairs", o.pairs);
  field("python", o.python);
  field("script", o.script);
  field("unset", o.unset);
  field("json", o.json);
}

// A program under PyTorch that does the same as one of ours.
struct BenchPeer {
  std::string name;                    // "PyTorch, channels-last"
  std::string script;                  // file in scripts/peers
  std::vector<std::string> arguments;  // of the script, without those that the benchmark adds
};

template <class Field>
void fields(BenchPeer& o, Field&& field) {
  field("name", o.name);
  field("script", o.script);
  field("arguments", o.arguments);
}

// A pair of networks of which one training step is timed. `config` is a Config::to_json().
struct BenchStepNet {
  std::string name;
  std::string about;
  Json config;
  std::vector<BenchPeer> peers;
};

template <class Field>
void fields(BenchStepNet& o, Field&& field) {
  field("name", o.name);
  field("about", o.about);
  field("config", o.config);
  field("peers", o.peers);
}

// `bench step`: time an iteration of training, its phases, and its convolutions and products alone.
struct BenchStepRequest {
  std::vector<BenchStepNet> nets;
  bool profile = false;  // print what the time goes to, by operator, and measure nothing else
  bool ref = false;      // time train.kernels=ref too
  bool floor = true;     // time the convolutions and products alone
  int64_t pairs = 3;     // measurements of each, in turns
  int64_t warm = 2;      // iterations before those that are timed
  int64_t steps = 2;     // timed iterations of a measurement
  int64_t threads = 1;
  std::string python;              // an interpreter that has torch, for the peers; empty: no peers
  std::string scripts;             // the folder of the peers' scripts
  std::vector<std::string> unset;  // Peer::unset
  bool cuda = false;               // compute on the first visible GPU
  bool json = false;               // one JSON line, last on standard output
};

template <class Field>
void fields(BenchStepRequest& o, Field&& field) {
  field("nets", o.nets);
  field("profile", o.profile);
  field("ref", o.ref);
  field("floor", o.floor);
  field("pairs", o.pairs);
  field("warm", o.warm);
  field("steps", o.steps);
  field("threads", o.threads);
  field("python", o.python);
  field("scripts", o.scripts);
  field("unset", o.unset);
  field("cuda", o.cuda);
  field("json", o.json);
}

// `bench ops`: time the operators that move memory, on tensors [batch, channels, pixels, pixels].
struct BenchOpsRequest {
  int64_t rounds = 5;
  int64_t threads = 1;
  int64_t batch = 8;
  int64_t channels = 256;
  int64_t pixels = 64;
  bool cuda = false;                  // on the first visible GPU
  std::string dtype = "float32";      // of the tensors; float16 and bfloat16 only on a GPU
  std::string layout = "contiguous";  // or channels-last
  bool json = false;                  // one JSON line, last on standard output
};

template <class Field>
void fields(BenchOpsRequest& o, Field&& field) {
  field("rounds", o.rounds);
  field("threads", o.threads);
  field("batch", o.batch);
  field("channels", o.channels);
  field("pixels", o.pixels);
  field("cuda", o.cuda);
  field("dtype", o.dtype);
  field("layout", o.layout);
  field("json", o.json);
}

// `bench data`: time the loader on pictures that are made for it.
struct BenchDataRequest {
  int64_t rounds = 5;
  int64_t pictures = 200;  // of each format
  int64_t size = 256;      // pixels a side, as stored
  int64_t resolution = 256;
  std::string python;   // an interpreter that has Pillow, for the peer; empty: no peer
  std::string scripts;  // the folder of the peers' scripts
  bool json = false;    // one JSON line, last on standard output
};

template <class Field>
void fields(BenchDataRequest& o, Field&& field) {
  field("rounds", o.rounds);
  field("pictures", o.pictures);
  field("size", o.size);
  field("resolution", o.resolution);
  field("python", o.python);
  field("scripts", o.scripts);
  field("json", o.json);
}

// `bench save`: time the files that a run writes to go on with.
struct BenchSaveRequest {
  std::string about;
  Json config;
  int64_t rounds = 5;
  int64_t threads = 1;
  std::string folder;  // on the disk to be measured
  bool json = false;   // one JSON line, last on standard output
};

template <class Field>
void fields(BenchSaveRequest& o, Field&& field) {
  field("about", o.about);
  field("config", o.config);
  field("rounds", o.rounds);
  field("threads", o.threads);
  field("folder", o.folder);
  field("json", o.json);
}

}  // namespace gantrain

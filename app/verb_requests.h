// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/value.h"

// What the thin program asks the trainer library for, beside drawing (draw/requests.h), training
// (train_request.h) and benchmarks (bench_requests.h). They travel as the JSON text of message_of()
// (config/message.h). No torch.

namespace gantrain {

// `import`: make a model file of the weights in a foreign file.
struct ImportRequest {
  std::string input;
  std::string output;  // NAME.safetensors
  std::string recipe;  // the recipe of `input`, or "" where the file names it
};

template <class Field>
void fields(ImportRequest& o, Field&& field) {
  field("input", o.input);
  field("output", o.output);
  field("recipe", o.recipe);
}

// `export`: make a folder that draws without gantrain.
struct ExportRequest {
  std::string model;          // a model file or a run folder
  std::string to = "python";  // the only one so far
  std::string output;         // folder
};

template <class Field>
void fields(ExportRequest& o, Field&& field) {
  field("model", o.model);
  field("to", o.to);
  field("output", o.output);
}

// `inspect`: print what is in a file or a run folder, or what differs between two of them.
struct InspectFileRequest {
  std::string path;
  std::string other;  // the second one, or ""
  bool json = false;  // one JSON line
};

template <class Field>
void fields(InspectFileRequest& o, Field&& field) {
  field("path", o.path);
  field("other", o.other);
  field("json", o.json);
}

// --dry-run=full: print parameter counts, dtypes, memory and time to standard output.
struct DescribeRequest {
  Json config;          // Config::to_json() of the run
  bool json = false;    // one JSON line instead of tables
  bool cuda = false;    // the run is to compute on GPUs
  int64_t world = 1;    // ranks of the run
  int64_t threads = 1;  // threads of the measurement on this machine's CPU
};

template <class Field>
void fields(DescribeRequest& o, Field&& field) {
  field("config", o.config);
  field("json", o.json);
  field("cuda", o.cuda);
  field("world", o.world);
  field("threads", o.threads);
}

// `doctor`: print facts of this machine, or the table of ways to use DistributedDataParallel, to
// standard output.
struct DoctorRequest {
  Json facts;  // name -> text, number or array: what the thin program found out, in this order
  bool ddp_table = false;
  bool json = false;  // one JSON line
};

template <class Field>
void fields(DoctorRequest& o, Field&& field) {
  field("facts", o.facts);
  field("ddp_table", o.ddp_table);
  field("json", o.json);
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/full_schema.h"
#include "config/value.h"
#include "util/field.h"
#include "util/text.h"

// What the thin program asks the trainer library for, beside drawing (draw/requests.h), training
// (train_request.h) and benchmarks (bench/requests.h). Members with a help text are the verb's
// options (command/options.h). No torch.

namespace gantrain {

// `import`: make a model file of the weights in a foreign file.
struct ImportRequest {
  std::string input;
  std::string output;  // NAME.safetensors
  std::string recipe;  // the recipe of `input`, or "" where the file names it
};

template <class Field>
void fields(ImportRequest& o, Field&& field) {
  field("input", o.input, said("FILE"), "network pickle (.pkl), or safetensors with --recipe");
  field("output", o.output, said("-o,--output"), "model file to write (.safetensors)");
  field("recipe",
        o.recipe,
        "model family of safetensors, which do not say it: " + join(officially_named(), " or ") +
            "; of a pickle, what it has to be");
}

// `export`: make a folder that draws without gantrain.
struct ExportRequest {
  std::string model;          // a model file or a run folder
  std::string to = "python";  // the only one so far
  std::string output;         // folder
};

template <class Field>
void fields(ExportRequest& o, Field&& field) {
  field("model", o.model, said("MODEL,--model"), "model file, or a run: its newest model");
  field("to",
        o.to,
        Said{.names = "--to", .show_default = true},
        "what for: python (the only one so far)");
  field("output", o.output, said("-o,--output"), "folder to write");
}

// `inspect`: print what is in a file or a run folder, or what differs between two of them.
struct InspectFileRequest {
  std::string path;               // the only one
  std::vector<std::string> both;  // or two
  bool json = false;              // one JSON line
};

template <class Field>
void fields(InspectFileRequest& o, Field&& field) {
  field("path", o.path, said("PATH"), "a model, state, pickle, array, picture or run folder");
  field("both",
        o.both,
        Said{.names = "--diff", .value = "A B", .count = 2},
        "A B: what differs between two of them");
  field("json", o.json, "one JSON line on standard output");
}

// --dry-run=full: print parameter counts, dtypes, memory and time to standard output.
struct DescribeRequest {
  Json config;          // Config::to_json() of the run
  bool json = false;    // one JSON line instead of tables
  bool cuda = false;    // the run is to compute on GPUs
  int64_t world = 1;    // ranks of the run
  int64_t threads = 1;  // threads of the measurement on this machine's CPU
};

// `doctor`: print facts of this machine, or the table of ways to use DistributedDataParallel, to
// standard output.
struct DoctorRequest {
  Json facts;  // name -> text, number or array: what the thin program found out, in this order
  bool ddp_table = false;
  bool json = false;  // one JSON line
};

template <class Field>
void fields(DoctorRequest& o, Field&& field) {
  field("json", o.json, "one JSON line");
  field("ddp_table",
        o.ddp_table,
        "run small GANs on two CPU ranks in every way of using DistributedDataParallel, and "
        "show what happens");
}

}  // namespace gantrain

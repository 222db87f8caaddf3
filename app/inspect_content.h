// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "config/value.h"

namespace gantrain {

// What lies in a file, or what a run folder holds.
struct FileContent {
  std::string kind;              // "model", "state", "run", "picture", ...
  Json facts = Json::object();   // in the order in which they are shown
  Json config = Json::object();  // keys with their values: of the run, or of the network
  // By names that models and states share: "G_ema/...", "G/...", "D/...", "D.opt/exp_avg/...". For
  // a run these are the tensors of its newest model.
  std::map<std::string, at::Tensor> tensors;
  std::string next;  // a command that says more, or ""
};

// Reads what the project writes and imports: models (.safetensors), states (.pt), network pickles,
// arrays (.npy), pictures, configurations and other JSON, JSON lines, event files, text, run
// folders. Archives, videos and folders of pictures are told apart but not read. Throws
// UserError(kInput) that names the file and what is wrong with it.
FileContent read_content(const std::filesystem::path& path);

// The same for a run folder (inspect_run.cpp).
FileContent read_run(const std::filesystem::path& folder);
// Whether a folder is a run's.
bool is_run(const std::filesystem::path& folder);

// The same for what tells of a run: JSON lines (stats.jsonl), event files of TensorBoard, text
// (STATUS, log.txt, report.html). `bytes` is the file's content.
FileContent read_record(const std::filesystem::path& path, const std::string& bytes);

// Adds the tensors and the facts of a model file to the content.
void read_model_file(const std::filesystem::path& path, FileContent& content);

}  // namespace gantrain

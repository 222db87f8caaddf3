// SPDX-License-Identifier: Apache-2.0
// The verbs that look at files, data and the machine, and that bring weights in and out.
#include <filesystem>

#include "command/values.h"
#include "curation/requests.h"
#include "inspect/machine.h"
#include "launch/where/environment.h"
#include "main/requests.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

int run_inspect(InspectFileRequest& request, Options&) {
  if (!request.both.empty() && !request.path.empty())
    fail(Exit::kUsage, "inspect: either {} or --diff A B", request.path);
  if (request.both.empty() && request.path.empty())
    fail(Exit::kUsage, "inspect: what? gantrain inspect FILE, or --diff A B");
  return call_trainer("inspect", request, /*cuda=*/false);
}

int run_import(ImportRequest& request, Options&) {
  if (request.input.empty())
    fail(Exit::kUsage, "import: which file? gantrain import FILE -o MODEL");
  if (request.output.empty()) fail(Exit::kUsage, "import: where to? -o MODEL.safetensors");
  if (!ends_with(lower(request.output), ".safetensors"))
    fail(Exit::kUsage, "-o {}: give a name ending in .safetensors", request.output);
  std::error_code error;
  if (!std::filesystem::is_regular_file(request.input, error))
    fail(Exit::kInput, "{}: no such file; a network pickle (.pkl) is needed", request.input);
  return call_trainer("import", request, /*cuda=*/false);
}

int run_export(ExportRequest& request, Options&) {
  if (request.model.empty())
    fail(Exit::kUsage, "export: which model? gantrain export RUN --to python -o DIR");
  if (request.to != "python") fail(Exit::kUsage, "--to {}: python is allowed", request.to);
  if (request.output.empty()) fail(Exit::kUsage, "export: where to? -o DIR");
  return call_trainer("export", request, /*cuda=*/false);
}

// Throws UserError where no data was named, or one that nothing can be said about.
void check_path(const std::string& verb, const std::string& path) {
  if (path.empty()) fail(Exit::kUsage, "data {}: which data? gantrain data {} PATH", verb, verb);
  if (starts_with(path, "synth:"))
    fail(Exit::kUsage, "{}: pictures that are computed; data {} wants files", path, verb);
}

int run_data_inspect(InspectRequest& request, Options&) {
  check_path("inspect", request.path);
  if (!request.sheet.empty() && !ends_with(lower(request.sheet), ".png"))
    fail(Exit::kUsage, "--sheet {}: give a name ending in .png", request.sheet);
  if (!request.sheet.empty()) check_folder_of("--sheet", request.sheet);
  if (!request.bad.empty()) check_folder_of("--bad", request.bad);
  request.gpu = gpu_outlook(DeviceKind::kAuto, current_environment()).visible.count > 0;
  return call_trainer("data inspect", request, /*cuda=*/false);
}

int run_data_pack(PackRequest& request, Options& options) {
  check_path("pack", request.path);
  if (request.output.empty()) fail(Exit::kUsage, "data pack: where to? -o NAME.zip, or -o FOLDER");
  if (!options.given("--resolution"))
    fail(Exit::kUsage, "data pack: which size? --resolution 256, or --resolution 256x128");
  return call_trainer("data pack", request, /*cuda=*/false);
}

int run_doctor(DoctorRequest& request, Options&) {
  if (!request.ddp_table) {
    request.facts = machine_facts(gpu_outlook(DeviceKind::kAuto, current_environment()),
                                  cuda_library().string());
  }
  try {
    return call_trainer("doctor", request, /*cuda=*/false);
  } catch (const UserError& e) {
    // LibTorch may be what is wrong here; what is known without it is shown all the same.
    if (request.facts.is_null()) throw;
    request.facts["libtorch"] = e.what();
    print_facts(request.facts, request.json);
    throw;
  }
}

}  // namespace

Verb inspect_verb() {
  return verb_of("inspect",
                 "what is in a file or a run; --diff A B: what differs",
                 "What is in a file or a run: its kind, where it comes from, its parts, and of "
                 "each tensor shape, type, norm, bounds and values that are not finite.",
                 run_inspect);
}

Verb import_verb() {
  return verb_of("import",
                 "a model file of foreign weights (network pickles)",
                 "A model file of foreign weights: network pickles of StyleGAN2-ADA (PyTorch), "
                 "StyleGAN3 and R3GAN (nothing in them is executed), and, with --recipe, "
                 "safetensors with the official variables of PGGAN and StyleGAN v1.",
                 run_import);
}

Verb export_verb() {
  return verb_of("export",
                 "a folder for Python: weights, one PyTorch file, model card",
                 "A folder that others can use without gantrain: the generator's weights, one "
                 "PyTorch file that draws the same pictures (and exports itself to ONNX), a test "
                 "of itself, and a model card.",
                 run_export);
}

Verb data_verb() {
  return verb_of_parts(
      "data",
      "what is in a data set; pack one into a zip: gantrain data inspect|pack",
      {verb_of("data inspect",
               "sizes, forms, classes, copies and bad files of a data set",
               "Looks at every picture of a data set: sizes, forms, classes, copies, bad files, "
               "and what to start training with.",
               run_data_inspect),
       verb_of("data pack",
               "a zip or folder of prepared pictures, for gantrain and others",
               "Writes a data set of prepared pictures in the layout of StyleGAN's dataset_tool: "
               "PNGs of one size and dataset.json, in a zip or a folder. Stopped at any time, the "
               "same command goes on.",
               run_data_pack)});
}

Verb doctor_verb() {
  return verb_of("doctor",
                 "what this machine and build can do; --ddp-table",
                 "What this machine and this build can do.",
                 run_doctor);
}

}  // namespace gantrain

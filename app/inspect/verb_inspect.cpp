// SPDX-License-Identifier: Apache-2.0
// The verbs that look at files, runs, data and the machine, and that bring weights in and out.
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "command/options.h"
#include "config/schema.h"
#include "curation/requests.h"
#include "inspect/machine.h"
#include "launch/where/environment.h"
#include "main/requests.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "page/run_page.h"
#include "page/run_record.h"
#include "serve/server.h"
#include "util/error.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

int run_inspect(InspectFileRequest& request, Options&) {
  if (!request.both.empty() && !request.path.empty())
    fail(Exit::kUsage, "inspect: either {} or --diff A B", request.path);
  if (request.both.empty() && request.path.empty())
    fail(Exit::kUsage, "inspect: what? {} inspect FILE, or --diff A B", program());
  return call_trainer("inspect", request, /*cuda=*/false);
}

int run_import(ImportRequest& request, Options&) {
  if (request.input.empty())
    fail(Exit::kUsage, "import: which file? {} import FILE -o MODEL.safetensors", program());
  if (request.output.empty()) fail(Exit::kUsage, "import: where to? -o MODEL.safetensors");
  if (!ends_with(lower(request.output), ".safetensors"))
    fail(Exit::kUsage, "-o {}: give a name ending in .safetensors", request.output);
  refuse_address(request.input);
  std::error_code error;
  if (!fs::is_regular_file(request.input, error))
    fail(Exit::kInput, "{}: no such file; a network pickle (.pkl) is needed", request.input);
  return call_trainer("import", request, /*cuda=*/false);
}

int run_export(ExportRequest& request, Options&) {
  if (request.model.empty())
    fail(Exit::kUsage, "export: which model? {} export RUN --to python -o DIR", program());
  if (request.to != "python") fail(Exit::kUsage, "--to {}: allowed: python", request.to);
  if (request.output.empty()) fail(Exit::kUsage, "export: where to? -o DIR");
  return call_trainer("export", request, /*cuda=*/false);
}

// Throws UserError where no data was named, or one that nothing can be said about.
void check_path(const std::string& verb, const std::string& path) {
  if (path.empty())
    fail(Exit::kUsage, "data {}: which data? {} data {} PATH", verb, program(), verb);
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

void check_run(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) fail(Exit::kInput, "{}: no such folder", folder);
  require_run_folder(folder);
}

struct ReportRequest {
  std::vector<std::string> runs;
  std::string out;
};

template <class Field>
void fields(ReportRequest& o, Field&& field) {
  field("runs", o.runs, said("RUN"), "run folders");
  field(
      "out", o.out, said("-o,--out"), "the page (one run: RUN/report.html; several: compare.html)");
}

int run_report(ReportRequest& request, Options&) {
  const std::vector<std::string>& runs = request.runs;
  if (runs.empty()) fail(Exit::kUsage, "report: of which run? {} report RUN...", program());
  for (const std::string& run : runs) check_run(run);
  std::string out = request.out;
  if (out.empty())
    out = runs.size() == 1 ? (fs::path(runs.front()) / "report.html").string() : "compare.html";
  write_file(out,
             runs.size() == 1 ? render_run_page(runs.front())
                              : render_comparison({runs.begin(), runs.end()}));
  fmt::print("{}\n", out);
  return 0;
}

void check(const ServeOptions& options) {
  std::error_code error;
  if (options.folder.empty())
    fail(Exit::kUsage, "serve: the runs of which folder? {} serve RUNS", program());
  if (!fs::exists(options.folder, error)) fail(Exit::kInput, "{}: no such folder", options.folder);
  if (!fs::is_directory(options.folder, error))
    fail(Exit::kInput, "{}: no folder of runs, but a file", options.folder);
  if (options.port < 0 || options.port > 65535)
    fail(Exit::kUsage, "--port {}: 0 to 65535 are allowed", options.port);
  if (options.token.empty() && !is_loopback(options.host)) {
    fail(Exit::kUsage,
         "--host {} lets other machines in: --token auto or --token FILE must be given, too",
         options.host);
  }
}

// A token that was made goes with the server that takes it.
struct RandomTokenFile {
  fs::path path = write_random_token();
  RandomTokenFile() = default;
  RandomTokenFile(const RandomTokenFile&) = delete;
  RandomTokenFile& operator=(const RandomTokenFile&) = delete;
  ~RandomTokenFile() {
    std::error_code gone;
    fs::remove(path, gone);
  }
};

int run_serve(ServeOptions& options, Options&) {
  const bool makes_token = options.token == "auto";
  if (!makes_token && !options.token.empty()) options.token = token_in(options.token);
  check(options);
  std::optional<RandomTokenFile> file;
  if (makes_token) {
    options.token = token_in(file.emplace().path);
    fmt::print("token in {}\n", file->path.string());
    if (::isatty(STDOUT_FILENO) != 0) fmt::print("token {}\n", options.token);
  }
  call_serve(message_of(options).dump());
  return 0;
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

Verb report_verb() {
  return verb_of("report",
                 "the page of a run; of several runs one that compares them",
                 "The page of a run, report.html, written anew; of several runs one page that "
                 "compares them.",
                 run_report);
}

Verb serve_verb() {
  return verb_of("serve",
                 "the runs of a folder as live pages, and metrics for Prometheus",
                 "Live pages of a folder's runs: status, verdict, pictures and curves; /metrics "
                 "for Prometheus. Ctrl-C ends it. Without --token every user of this machine can "
                 "read the pages. With it reading needs the token, too: browsers ask for it as a "
                 "password, Prometheus sends it as \"Authorization: Bearer TOKEN\". It crosses the "
                 "network as plain text; from another machine ssh -L 8300:127.0.0.1:8300 HOST and "
                 "http://127.0.0.1:8300/ are safer than --host (SECURITY.md).",
                 run_serve);
}

}  // namespace gantrain

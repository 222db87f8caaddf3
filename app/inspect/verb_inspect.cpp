// SPDX-License-Identifier: Apache-2.0
// The verbs that look at files, runs, data and the machine, that send runs to trackers, and that
// bring weights in and out.
#include <unistd.h>

#include <csignal>
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
#include "track/track.h"
#include "util/error.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "util/log.h"
#include "util/system.h"
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
  std::error_code error;
  const std::string ending = fs::path(request.output).extension().string();
  const bool folder = ending.empty() || fs::is_directory(request.output, error);
  if (!folder && lower(ending) != ".safetensors")
    fail(Exit::kUsage,
         "-o {}: give a name ending in .safetensors, or a folder for the Hugging Face Hub",
         request.output);
  refuse_address(request.input);
  if (fs::is_directory(request.input, error))
    request.input = weights_of_snapshot(request.input).string();
  if (!fs::is_regular_file(request.input, error))
    fail(Exit::kInput, "{}: no such file; a network pickle (.pkl) is needed", request.input);
  return call_trainer("import", request, /*cuda=*/false);
}

int run_export(ExportRequest& request, Options&) {
  const bool onnx = request.to == ExportKind::kOnnx, web = request.to == ExportKind::kWeb;
  const std::string place = onnx ? "NAME.onnx" : web ? "NAME.html" : "DIR";
  const std::string_view kind = names(request.to)[static_cast<size_t>(request.to)];
  if (request.model.empty())
    fail(Exit::kUsage, "export: which model? {} export RUN --to {} -o {}", program(), kind, place);
  if (request.output.empty()) fail(Exit::kUsage, "export: where to? -o {}", place);
  if (onnx || web) {
    if (!ends_with(lower(request.output), onnx ? ".onnx" : ".html"))
      fail(Exit::kUsage, "-o {}: give a name ending in {}", request.output, place.substr(4));
    check_folder_of("-o", request.output);
  } else if (request.fp16) {
    fail(Exit::kUsage, "--fp16: only with --to onnx and --to web");
  } else if (request.vectors) {
    fail(Exit::kUsage, "--label-vectors: only with --to onnx and --to web");
  }
  if (!web && !request.runtime.empty()) fail(Exit::kUsage, "--runtime: only with --to web");
  if (!web && !request.directions.empty()) fail(Exit::kUsage, "--directions: only with --to web");
  // It stands in the page's policy, whose parts end at blanks, commas and semicolons.
  if (request.runtime.find_first_of(" \t\r\n,;'\"<>") != std::string::npos)
    fail(Exit::kUsage,
         "--runtime {}: an address or a path without blanks and quotes is needed",
         printable(request.runtime));
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

// How many ranks those flags make in this environment, which may name the nodes itself: Slurm's, a
// pod's. Each is given one picture.
int64_t ranks_to_measure(const DoctorRequest& request, const std::string& nproc, int64_t gpus) {
  LaunchOptions options;
  options.nproc = parse_int(split(nproc, ':').back());
  options.nnodes = parse_int(split(request.nnodes, ':').back()).value_or(1);
  options.node_rank = parse_int(request.node_rank).value_or(0);
  options.master_addr = request.master_addr;
  options.master_port = parse_int(request.master_port).value_or(0);
  return detect_world(options, /*flags_given=*/true, current_environment(), gpus).ranks.world;
}

// Ranks are started and measured as those of a training, which ends before its first iteration.
int measure_ranks(const DoctorRequest& request) {
  const GpuOutlook gpus = gpu_outlook(DeviceKind::kAuto, current_environment());
  const bool on_gpus = request.device != "cpu" && gpus.visible.count > 0;
  const std::string nproc =
      !request.nproc.empty() ? request.nproc : std::to_string(on_gpus ? gpus.visible.count : 1);
  const int64_t ranks = ranks_to_measure(request, nproc, on_gpus ? gpus.visible.count : 0);
  std::vector<std::string> words = {"--preset",
                                    "dcgan-tiny",
                                    "--preflight",
                                    "only",
                                    "--lr-scale",
                                    "linear",
                                    "--nproc",
                                    nproc,
                                    "--batch",
                                    std::to_string(ranks)};
  const std::pair<const char*, const std::string*> flags[] = {
      {"--nnodes", &request.nnodes},
      {"--node-rank", &request.node_rank},
      {"--master-addr", &request.master_addr},
      {"--master-port", &request.master_port},
      {"--device", &request.device},
      {"--backend", &request.backend}};
  for (const auto& [flag, value] : flags) {
    if (!value->empty()) words.insert(words.end(), {flag, *value});
  }
  return train_verb().run(words);
}

int run_doctor(DoctorRequest& request, Options& options) {
  for (const char* flag :
       {"--nproc", "--nnodes", "--node-rank", "--master-addr", "--master-port"}) {
    if (!options.given(flag)) continue;
    if (request.json) fail(Exit::kUsage, "doctor --json: not with {}, which measures ranks", flag);
    return measure_ranks(request);
  }
  for (const char* flag : {"--device", "--backend"}) {
    if (options.given(flag))
      fail(Exit::kUsage, "doctor {}: only with --nproc, which starts ranks", flag);
  }
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

struct TrackRequest {
  std::string run;
  std::vector<std::string> servers;
  bool follow = false;
  std::string wait = "30s";
};

template <class Field>
void fields(TrackRequest& o, Field&& field) {
  field("run", o.run, said("RUN"), "a run folder");
  field("servers",
        o.servers,
        Said{.names = "--track,--to", .value = "KIND=URL"},
        "mlflow=URL or trackio=URL, may be given again (those that the run was trained with)");
  field("follow", o.follow, "go on until the run is over; a server that is away is waited for");
  field("wait",
        o.wait,
        Said{.show_default = true},
        "without --follow: how long a server may be silent before its rows are left");
}

// Those of the command line; else those that the run was sent to or trained with.
std::vector<TrackTarget> servers_of(const TrackRequest& request) {
  std::string names = join(request.servers, ",");
  if (names.empty()) {
    const auto config =
        parse_foreign(content_of(fs::path(request.run) / "config.json", kMostOfJson).value_or(""));
    const Json::json_pointer place("/values/run.track/value");
    if (config.is_object() && config.contains(place) && config[place].is_string())
      names = config[place].get<std::string>();
  }
  if (names.empty()) names = tracked_servers(request.run);
  if (names.empty()) {
    fail(Exit::kUsage,
         "{}: was trained without --track: name where its rows go by --track mlflow=URL or "
         "--track trackio=URL",
         request.run);
  }
  return parse_targets(names);
}

int run_track(TrackRequest& request, Options&) {
  if (request.run.empty()) fail(Exit::kUsage, "track: which run? {} track RUN", program());
  const auto wait = parse_duration(request.wait);
  if (!wait) fail(Exit::kUsage, "--wait {}: a time such as 30s or 5m", request.wait);
  std::error_code error;
  if (!fs::is_directory(request.run, error))
    fail(Exit::kInput, "{}: there is no such run folder", request.run);
  require_run_folder(request.run);
  const std::vector<TrackTarget> servers = servers_of(request);
  std::signal(SIGPIPE, SIG_IGN);  // of OpenSSL's sockets
  set_log({log_console_level(), Level::kInfo, fs::path(request.run) / "log.txt", ""});
  const std::vector<std::string> behind =
      track(request.run, servers, {.follow = request.follow, .wait = *wait});
  for (const std::string& server : behind) {
    warn("track   {} lacks rows; the rest: {} track {}",
         server,
         program(),
         shell_quote(request.run));
  }
  return behind.empty() ? 0 : code_of(Exit::kEnvironment);
}

}  // namespace

Verb inspect_verb() {
  return verb_of("inspect",
                 "what is in a file or a run; --diff A B: what differs",
                 "Shows what is in a file or a run: its kind, its origin, its parts, and for each "
                 "tensor the shape, type, norm, bounds and number of values that are not finite.",
                 run_inspect);
}

Verb import_verb() {
  return verb_of("import",
                 "convert official weights (network pickles) to a model file",
                 "Converts official weights to a model file: network pickles of StyleGAN2-ADA "
                 "(PyTorch), StyleGAN3, R3GAN and Projected GAN (FastGAN), in which nothing is "
                 "executed; with --recipe, safetensors with the official variables of PGGAN and "
                 "StyleGAN v1; and folders from the Hugging Face Hub with such files or with "
                 "gantrain's own. Nothing is downloaded.",
                 run_import);
}

Verb export_verb() {
  return verb_of("export",
                 "a generator for Python, the Hugging Face Hub, ONNX or browsers",
                 "A generator that others can use without gantrain. --to python: a folder with its "
                 "weights, one PyTorch file that draws the same pictures, a test of itself, and a "
                 "model card; --to hf: the same with the Hub's metadata. --to onnx: NAME.onnx, any "
                 "batch, with latents, labels, truncation and noise as inputs, and NAME.onnx.json, "
                 "which says what they are. --to web: one HTML file that draws in a browser, with "
                 "sliders for seed, truncation, labels, style mixing and directions.",
                 run_export);
}

Verb data_verb() {
  return verb_of_parts(
      "data",
      "what is in a data set; pack one into a zip: gantrain data inspect|pack",
      {verb_of("data inspect",
               "sizes, formats, classes, duplicates and broken files of a data set",
               "Checks every picture of a data set: sizes, formats, classes, duplicates, broken "
               "files; and prints a command to start training with.",
               run_data_inspect),
       verb_of("data pack",
               "a zip or folder of prepared pictures, for gantrain and others",
               "Writes a data set of prepared pictures in the layout of StyleGAN's dataset_tool: "
               "PNGs of one size and dataset.json, in a zip or a folder. After an interruption the "
               "same command continues.",
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
                 "the report page of a run, or a comparison of several runs",
                 "Writes the report page of a run, report.html, again; for several runs, a page "
                 "that compares them.",
                 run_report);
}

Verb serve_verb() {
  return verb_of("serve",
                 "the runs of a folder as live pages, and metrics for Prometheus",
                 "Live pages of a folder's runs: status, verdict, pictures and curves; /metrics "
                 "for Prometheus. Links in the folder are not followed. Ctrl-C ends it. Without "
                 "--token every user of this machine can "
                 "read the pages. With it reading needs the token, too: browsers ask for it as a "
                 "password, Prometheus sends it as \"Authorization: Bearer TOKEN\". It crosses the "
                 "network as plain text; from another machine ssh -L 8300:127.0.0.1:8300 HOST and "
                 "http://127.0.0.1:8300/ are safer than --host (SECURITY.md).",
                 run_serve);
}

Verb track_verb() {
  return verb_of("track",
                 "send a run's curves to MLflow or Trackio, each value once",
                 "Sends the rows of a run to trackers: afterwards, those that train --track could "
                 "not send, or with --follow during training, from a machine with a network. "
                 "RUN/track.json records what each server has received, so that nothing is sent "
                 "twice. Secrets are read from the environment: see gantrain help track.",
                 run_track);
}

}  // namespace gantrain

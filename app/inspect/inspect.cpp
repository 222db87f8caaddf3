// SPDX-License-Identifier: Apache-2.0
#include "inspect/inspect.h"

#include <ATen/Version.h>
#include <signal.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>

#include "bench/worlds.h"
#include "config/recipes.h"
#include "core/torch.h"
#include "curation/inspection.h"
#include "curation/packing.h"
#include "ddp_table/ddp_table.h"
#include "distributed/options.h"
#include "draw/draw.h"
#include "exchange/export.h"
#include "exchange/import.h"
#include "main/requests.h"
#include "report/console.h"
#include "train/save/run_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/size.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

std::atomic<int> received = 0;  // a signal handler reaches nothing but globals

extern "C" void note_signal(int signal) { received = signal; }

// While it lives, Ctrl-C and SIGTERM do not end this process: the first one is only noted, so that
// long work can leave its files in order; a second one ends the process as usual.
class StopSignals {
 public:
  StopSignals() {
    received = 0;
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    sigaction(SIGINT, &action, &interrupt_before_);
    sigaction(SIGTERM, &action, &terminate_before_);
    // In the background of a shell script Ctrl-C is ignored, and stays so.
    if (interrupt_before_.sa_handler == SIG_IGN) sigaction(SIGINT, &interrupt_before_, nullptr);
  }
  ~StopSignals() {
    sigaction(SIGINT, &interrupt_before_, nullptr);
    sigaction(SIGTERM, &terminate_before_, nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool asked() const { return received != 0; }
  // Throws UserError with 128 and the signal's number, which is 130 for Ctrl-C.
  [[noreturn]] void leave(const std::string& text) const {
    fail(static_cast<Exit>(128 + received.load()), "stopped{}", text);
  }

 private:
  struct sigaction interrupt_before_ {};
  struct sigaction terminate_before_ {};
};

void print_indented(const Json& facts, const std::string& indent) {
  for (const auto& [key, value] : facts.items()) {
    if (value.is_object()) {
      if (value.empty()) continue;
      print_text("{}{}\n", indent, key);
      print_indented(value, indent + "  ");
    } else if (value.is_array()) {
      if (value.empty()) continue;
      std::vector<std::string> parts;
      for (const Json& one : value) parts.push_back(text_of(one));
      print_text("{}{:<13} {}\n", indent, key, join(parts, ", "));
    } else {
      print_text("{}{:<13} {}\n", indent, key, text_of(value));
    }
  }
}

int show(const InspectFileRequest& request) {
  const FileContent content = read_content(request.path, recipe_rows());
  const Json rows = tensor_rows(content.tensors), parts = part_rows(rows);
  if (request.json) {
    const Json line = {{"path", request.path},
                       {"kind", content.kind},
                       {"facts", content.facts},
                       {"config", content.config},
                       {"parts", parts},
                       {"tensors", rows}};
    fmt::print("{}\n", json_line(line));
    return 0;
  }
  print_text("{}: {}\n", request.path, content.kind);
  print_indented(content.facts, "");
  print_tensors(rows, parts);
  if (!content.next.empty()) info("next    {}", content.next);
  return 0;
}

// Of what has no tensors and no configuration, the facts are compared, and the bytes.
void compare_facts(const FileContent& a,
                   const FileContent& b,
                   const std::vector<std::string>& paths,
                   Json& difference) {
  if (!a.tensors.empty() || !b.tensors.empty() || !a.config.empty() || !b.config.empty()) return;
  for (const FileContent* one : {&a, &b}) {
    for (const auto& [key, value] : one->facts.items()) {
      const Json there = a.facts.value(key, Json()), here = b.facts.value(key, Json());
      if (there != here) difference["config"][key] = {there, here};
    }
  }
  std::error_code error;
  const bool files = std::filesystem::is_regular_file(paths[0], error) &&
                     std::filesystem::is_regular_file(paths[1], error);
  if (files) difference["same_bytes"] = read_file(paths[0]) == read_file(paths[1]);
}

int show_difference(const InspectFileRequest& request) {
  const std::string& path = request.both[0];
  const std::string& other = request.both[1];
  const FileContent a = read_content(path, recipe_rows()), b = read_content(other, recipe_rows());
  Json difference = difference_of(a, b);
  compare_facts(a, b, request.both, difference);
  if (request.json) {
    fmt::print("{}\n", json_line(difference));
    return 0;
  }
  print_text("A {}: {}\nB {}: {}\n", path, a.kind, other, b.kind);
  print_difference(difference);
  return 0;
}

// Returns what long work on a data set gives, and shows how far it has come; throws where it was
// stopped, with `left` as what that means.
template <class Work>
auto finish_unless_stopped(const char* doing, const char* left, const Work& work) {
  const StopSignals signals;
  WorkProgress progress(doing);
  const WorkCallbacks callbacks = {
      .stop = [&] { return signals.asked(); },
      .progress = [&](int64_t done, int64_t all) { progress.show(done, all); }};
  try {
    auto result = work(callbacks);
    if (!result.stopped) return result;
  } catch (const UserError& error) {
    if (error.code() != Exit::kStopped) throw;
  }
  signals.leave(left);
}

constexpr size_t kReasonsShown = 20;

void say_bad(const PackRequest& request, const PackResult& result) {
  if (result.bad.empty()) return;
  for (size_t i = 0; i < std::min(result.bad.size(), kReasonsShown); ++i) warn("{}", result.bad[i]);
  warn("{} left out, listed in {}",
       counted(static_cast<int64_t>(result.bad.size()), "picture"),
       bad_list_of(request));
}

Json json_of(const PackRequest& request, const PackResult& result, double seconds) {
  Json line = {{"output", request.output},
               {"pictures", result.pictures},
               {"size", to_text(request.resolution)},
               {"channels", result.channels},
               {"depth", result.depth},
               {"classes", result.classes},
               {"numbers", result.numbers},
               {"bytes", result.bytes},
               {"resumed", result.resumed},
               {"bad", result.bad},
               {"bad_list", nullptr},
               {"seconds", seconds}};
  if (!result.bad.empty()) line["bad_list"] = bad_list_of(request);
  return line;
}

// Returns a command that runs with this data: networks do not take every size.
std::string next_command(const PackRequest& request, int64_t depth) {
  const auto size = find_doubled_size(request.resolution);
  const bool trainable = size && size->doublings >= 1 && size->doublings <= 8;
  const std::string output = shell_quote(request.output);
  if (!trainable) return fmt::format("{} data inspect {}", program(), output);
  // Without a word a run takes grey pictures as grey, and all others as RGB.
  const bool alpha = request.channels && *request.channels % 2 == 0;
  return fmt::format("{} --preset stylegan2-ada --data {} --resolution {}{}{}",
                     program(),
                     output,
                     to_text(request.resolution),
                     alpha ? fmt::format(" --set data.channels={}", *request.channels) : "",
                     depth == 16 ? " --set data.depth=16" : "");
}

// Before this process's first LibTorch call: it forks.
int ddp_table(bool json) {
  check_options({}, /*ranks=*/2);
  constexpr int64_t kSeconds = 120;  // for one cell
  const std::vector<CellResult> results = measure_ddp_table(
      [](int64_t world, const auto& body) { return run_local_world(world, kSeconds, body); });
  if (json) {
    fmt::print("{}\n", Json{{"ddp_table", ddp_table_json(results)}}.dump());
  } else {
    fmt::print("{}", ddp_table_text(results));
  }
  const bool as_expected = std::ranges::all_of(
      results, [](const CellResult& r) { return r.text().rfind(expected_text(r.cell), 0) == 0; });
  return static_cast<int>(as_expected ? Exit::kDone : Exit::kInternal);
}

// Another program's files, a run's above all, are not written over.
void check_folder(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  std::error_code error;
  if (!fs::exists(file, error)) return;
  const Json config = parse_foreign(content_of(file, kMostOfJson).value_or(""));
  if (config.is_object() && config.value("format", Json()) == "gantrain-generator") return;
  fail(Exit::kUsage,
       "-o {}: has a config.json of something else, perhaps a run; give another folder",
       folder.string());
}

// The seeds 0 to 15 side by side.
void draw_grid(ExportedModel& exported, const fs::path& folder) {
  GenerateRequest request;
  request.how.model = exported.file.string();
  request.how.level = exported.model.level;
  request.how.alpha = exported.model.alpha;
  request.how.depth = exported.model.depth;
  constexpr int64_t kPictures = 16;
  request.seeds.add(0, kPictures - 1);
  const bool known = exported.vectors && !exported.model.classes.examples.empty();
  if (exported.model.generator->classes() > 0 && !known) request.how.classes = "0";
  request.grid = (folder / "grid.png").string();
  draw_pictures(*exported.model.generator, request, exported.model.classes);
}

// A card that is there has perhaps been edited.
void write_card(const fs::path& folder, const std::string& card) {
  const fs::path file = folder / "README.md";
  std::error_code error;
  if (!fs::exists(file, error)) return write_file(file, card);
  if (content_of(file, kMostOfJson) != card)
    warn("{}: is kept as it is; remove it for a new one", file.string());
}

}  // namespace

int inspect_file(const InspectFileRequest& request) {
  return request.both.empty() ? show(request) : show_difference(request);
}

int data_inspect(const InspectRequest& request) {
  const Inspection inspection = finish_unless_stopped(
      "looking at", " before the end; nothing was written", [&](const WorkCallbacks& callbacks) {
        return inspect_data(request, callbacks);
      });
  Advice advice = advise(inspection, request.gpu);
  if (request.labels != "auto") advice.more = " --set data.labels=" + shell_quote(request.labels);
  if (request.unlabelled != Unlabelled::kAuto)
    advice.more +=
        " --set data.unlabelled=" + text_of(Value<Unlabelled>::to_json(request.unlabelled));
  if (request.join != Join::kAuto)
    advice.more += fmt::format(" --set data.join={}", text_of(Value<Join>::to_json(request.join)));
  if (request.json) {
    fmt::print("{}\n", json_line(inspection_json(inspection, advice)));
  } else {
    fmt::print("{}", inspection_text(inspection, advice, request.all));
  }
  if (!request.sheet.empty()) info("sheet   {}", request.sheet);
  if (!request.bad.empty()) info("bad     {}", request.bad);
  if (inspection.pictures == 0) {
    fail(Exit::kInput,
         "{}: {}, and none can be read",
         inspection.path,
         counted(static_cast<int64_t>(inspection.bad.size()), "picture"));
  }
  info("next    {}", train_command(inspection, advice));
  return 0;
}

int data_pack(const PackRequest& request) {
  const double start = monotonic_seconds();
  const PackResult result = finish_unless_stopped(
      "packing", "; the same command goes on from here", [&](const WorkCallbacks& callbacks) {
        return pack_pictures(request, callbacks);
      });
  const double seconds = monotonic_seconds() - start;
  say_bad(request, result);
  info("packed  {}: {} of {}x{}x{}{}, {:.1f} MB{}, in {:.1f} s",
       request.output,
       counted(result.pictures, "picture"),
       request.resolution.width,
       request.resolution.height,
       result.channels,
       result.depth == 16 ? " of 16 bits" : "",
       static_cast<double>(result.bytes) / 1e6,
       result.classes > 0   ? ", " + counted(result.classes, "class")
       : result.numbers > 0 ? ", labels of " + counted(result.numbers, "number")
                            : "",
       seconds);
  info("next    {}", next_command(request, result.depth));
  if (request.json) fmt::print("{}\n", json_line(json_of(request, result, seconds)));
  return 0;
}

int doctor(const DoctorRequest& request) {
  if (request.ddp_table) return ddp_table(request.json);
  Json facts = request.facts;
  facts["libtorch"] = fmt::format("{}, {}", TORCH_VERSION, at::get_cpu_capability());
  print_facts(facts, request.json);
  if (!request.json) info("next    {} --smoke", program());
  return 0;
}

namespace {

// A folder for Python, or the same for the Hugging Face Hub.
int export_folder(const ExportRequest& request) {
  const bool hub = request.to == ExportKind::kHf;
  const fs::path folder = request.output;
  check_folder(folder);
  ExportedModel exported = load_exported(find_model(request.model), recipe_rows());
  const Json config = config_of(exported);
  const Json self_test = self_test_of(exported);
  const std::string card = card_of(exported, config, hub);
  make_writable_folder(folder);
  save_safetensors(folder / "model.safetensors", exported.tensors, exported.model.metadata);
  write_file(folder / "config.json", config.dump(2) + "\n");
  write_file(folder / "self_test.json", self_test.dump() + "\n");
  write_file(folder / "model.py", python_program(exported.model.recipe->facts.python.parts));
  draw_grid(exported, folder);
  write_card(folder, card);
  info("{}: {} in Python, {}; fill in the licence in README.md before you share it",
       folder.string(),
       exported.model.recipe->facts.name,
       counted(static_cast<int64_t>(exported.tensors.size()), "tensor"));
  if (hub) {
    info("next    hf upload ORG/{} {}",
         shell_quote(
             fs::absolute(folder / "x").lexically_normal().parent_path().filename().string()),
         shell_quote(folder.string()));
  } else {
    info("next    python {} --self-test", shell_quote((folder / "model.py").string()));
  }
  return 0;
}

std::string megabytes(const std::string& bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes.size()) / 1e6);
}

int export_to_onnx(const ExportRequest& request) {
  ExportedModel exported = load_exported(find_model(request.model), recipe_rows(), request.vectors);
  const std::string graph = onnx_of(exported, OnnxPart::kWhole, request.fp16);
  const Json said = onnx_description(exported, request.fp16);
  const fs::path beside = request.output + ".json";
  write_file(request.output, graph);
  write_file(beside, said.dump(2) + "\n");
  std::vector<std::string> inputs;
  for (const auto& [name, about] : said["inputs"].items()) inputs.push_back(name);
  info("{}: {} in ONNX, opset {}, {}; inputs {}, which {} explains",
       request.output,
       exported.model.recipe->facts.name,
       text_of(said["opset"]),
       megabytes(graph),
       join(inputs, ", "),
       beside.string());
  return 0;
}

int export_to_web(const ExportRequest& request) {
  std::string runtime = request.runtime.empty() ? kWebRuntime : request.runtime;
  if (!ends_with(runtime, "/")) runtime += "/";
  const ExportedModel exported =
      load_exported(find_model(request.model), recipe_rows(), request.vectors);
  std::optional<Directions> directions;
  if (!request.directions.empty()) directions = load_directions(request.directions);
  const std::string page = web_page(exported, request.fp16, runtime, directions);
  write_file(request.output, page);
  info("{}: {} in a page, {}; open it in a browser, which loads onnxruntime-web from {}",
       request.output,
       exported.model.recipe->facts.name,
       megabytes(page),
       runtime);
  return 0;
}

// The model file of an import: a copy of one that it is already, with all that it says of itself.
void write_model(const ImportRequest& request, const fs::path& file) {
  const bool foreign = !request.recipe.empty();
  const auto own = foreign ? std::nullopt : read_model(request.input, recipe_rows());
  const auto imported =
      own ? std::nullopt
          : std::optional(import_weights(request.input, request.recipe, recipe_rows()));
  if (!file.parent_path().empty() && file.parent_path() == request.output)
    make_writable_folder(file.parent_path());
  if (own) {
    save_safetensors(file, {own->tensors.begin(), own->tensors.end()}, own->metadata);
    info("{}: {}", file.string(), counted(static_cast<int64_t>(own->tensors.size()), "tensor"));
  } else {
    save_model(file, *imported);
    info("{}: {}", file.string(), describe_model(*imported));
  }
}

// A small file of a folder that was downloaded. A link is followed into the cache's blobs alone:
// what a stranger's link names elsewhere must not be shared with the model.
std::optional<std::string> downloaded_text(const fs::path& file) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  const bool blob = real.parent_path().filename() == "blobs" &&
                    lies_in(file.parent_path(), real.parent_path().parent_path());
  return content_of(blob ? real : file, kMostOfJson);
}

// The card beside a model that gantrain has exported goes on with it.
void keep_card(const fs::path& from, const fs::path& folder) {
  std::error_code error;
  const Json config = parse_foreign(downloaded_text(from / "config.json").value_or(""));
  const auto card = downloaded_text(from / "README.md");
  const bool own = config.is_object() && config.value("format", Json()) == "gantrain-generator";
  if (own && card && !fs::exists(folder / "README.md", error))
    write_file(folder / "README.md", *card);
}

}  // namespace

int export_model(const ExportRequest& request) {
  switch (request.to) {
    case ExportKind::kPython:
    case ExportKind::kHf:
      return export_folder(request);
    case ExportKind::kOnnx:
      return export_to_onnx(request);
    case ExportKind::kWeb:
      return export_to_web(request);
  }
  throw std::logic_error("a kind of export");
}

int import_model(const ImportRequest& request) {
  const fs::path output = request.output;
  if (ends_with(lower(request.output), ".safetensors")) {
    write_model(request, output);
    info("next    {}", generate_command(request.output));
    return 0;
  }
  check_folder(output);
  write_model(request, output / "model.safetensors");
  keep_card(fs::path(request.input).parent_path(), output);
  return export_model({.model = (output / "model.safetensors").string(),
                       .to = ExportKind::kHf,
                       .output = request.output});
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
// `gantrain export`: a real Python draws what gantrain draws.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "config/value.h"
#include "image/image.h"
#include "support/catch.h"
#include "support/paths.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

int status_of(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string python() {
  const char* chosen = std::getenv("GANTRAIN_PYTHON");
  return shell_quote(chosen != nullptr ? chosen : "python3");
}

// A Python that has imported torch, once for all cases; programs run in forks of it
// (test/python/forks.py).
class Python {
 public:
  static Python& started() {
    static Python python;
    return python;
  }

  bool has(const std::string& module) const {
    return std::find(modules_.begin(), modules_.end(), module) != modules_.end();
  }

  // The exit status of a program with these arguments; what it said stands in FOLDER/said.txt.
  int run(const fs::path& folder, const std::string& program, const Words& arguments) {
    Words words = {folder.string(), "said.txt", program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const std::string line = Json(words).dump() + "\n";
    REQUIRE(::write(ours_, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
    return std::stoi(answer());
  }

 private:
  Python() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    ours_ = ends[0];
    const std::string command = "OMP_NUM_THREADS=1 exec " + python() + " " +
                                shell_quote(source_folder() + "/test/python/forks.py");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], 0);
      ::dup2(ends[1], 1);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    modules_ = words_of(answer());
  }
  ~Python() {
    ::close(ours_);  // the end of its input
    ::waitpid(pid_, nullptr, 0);
  }

  // The next line; what there is of it when Python has ended.
  std::string answer() {
    std::string line;
    for (char letter; ::read(ours_, &letter, 1) == 1 && letter != '\n';) line += letter;
    return line;
  }

  pid_t pid_ = -1;
  int ours_ = -1;
  Words modules_;
};

// Whether there is a Python that imports these.
bool python_has(const Words& modules) {
  for (const std::string& module : modules) {
    if (Python::started().has(module)) continue;
    WARN("skipped: no Python with " + module + " (GANTRAIN_PYTHON)");
    return false;
  }
  return true;
}

// The exit status of the exported program.
int run_model(const TemporaryFolder& folder, const std::string& arguments) {
  return Python::started().run(folder.path(), "out/model.py", words_of(arguments));
}

// Exports a model and compares a picture that no self-test has, drawn with `more` by both.
void check_same_picture(const TemporaryFolder& folder,
                        const std::string& model,
                        const std::string& more = "") {
  CAPTURE(model);
  fs::remove_all(folder / "out");
  fs::remove_all(folder / "drawn");
  succeed(folder, "export " + model + " --to python -o out");
  for (const std::string name :
       {"model.safetensors", "config.json", "model.py", "self_test.json", "README.md", "grid.png"})
    CHECK(fs::exists(folder / "out" / name));
  if (!python_has({"torch"})) return;
  const int tested = run_model(folder, "--self-test");
  INFO(read_file(folder / "said.txt"));
  CHECK(tested == 0);
  REQUIRE(run_model(folder, "--seed 1234 -o five.npy " + more) == 0);
  succeed(folder,
          "generate --device cpu --model " + model + " --seeds 1234 --format npy --outdir drawn " +
              more);
  std::vector<fs::path> files = files_like(folder / "drawn", "seed1234");
  REQUIRE(files.size() == 1);
  const FileTensor drawn = read_npy(files.front()), by_python = read_npy(folder / "five.npy");
  CHECK(drawn.shape == by_python.shape);
  CHECK(max_distance(drawn, by_python) <= 1e-4);
  // What was exported is a model file, too.
  fs::remove_all(folder / "again");
  succeed(folder,
          "generate --device cpu --model out/model.safetensors --seeds 1234 --format npy "
          "--outdir again " +
              more);
  files = files_like(folder / "again", "seed1234");
  REQUIRE(files.size() == 1);
  CHECK(read_npy(files.front()).bytes == drawn.bytes);
}

fs::path fixture(const std::string& name) {
  return fs::path(fixtures_folder()) / (name + ".safetensors");
}

TEST_CASE("PythonDrawsWhatDcganDraws") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 0.1");
  check_same_picture(folder, "run");
  trained(folder, "plain", "--kimg 0.1 --set dcgan.norm=none");
  check_same_picture(folder, "plain");
  // As generate does, the script refuses what the model has not.
  for (const std::string more : {"--class 5", "--trunc 0.5", "--noise-mode none"}) {
    if (!python_has({"torch"})) break;
    CAPTURE(more);
    CHECK(run_model(folder, "-o five.npy " + more) == 2);
    CHECK_THAT(read_file(folder / "said.txt"), Catch::Contains(more + ": the model has no"));
  }
  trained(folder, "wide", "--kimg 0 --resolution 32x16 --set data.channels=4");
  check_same_picture(folder, "wide");
}

TEST_CASE("PythonDrawsWhatGrowingNetworksDraw") {
  const TemporaryFolder folder;
  for (const std::string recipe : {"pggan", "stylegan2"}) {
    fs::copy_file(fixture("resumed-" + recipe), folder / (recipe + ".safetensors"));
    check_same_picture(folder, recipe + ".safetensors", recipe == "pggan" ? "" : "--class 0");
  }
}

TEST_CASE("PythonDrawsWhatR3GanDraws") {
  const TemporaryFolder folder;
  const std::string small =
      "--preset r3gan-tiny --kimg 0.1 --set samples.rows=1 --set data.synth_size=64 "
      "--set r3gan.width=16:8,16 --set r3gan.cardinality=4 --set r3gan.z_dim=16 ";
  trained(folder, "plain", small);
  check_same_picture(folder, "plain");
  trained(folder, "classes", small + "--cond on --resolution 32x16");
  check_same_picture(folder, "classes", "--class 1");
}

TEST_CASE("PythonDrawsWhatProjectedGansDraw") {
  const TemporaryFolder folder;
  const std::string small =
      "--preset projected-tiny --kimg 0.1 --set samples.rows=1 --set data.synth_size=64 "
      "--set projected.ngf=2 --set projected.z_dim=16 --set projected.cout=4 --set projected.ndf=8 "
      "--set projected.feature_widths=4,4,4,4,8,8,8,8 ";
  trained(folder, "lite", small);
  check_same_picture(folder, "lite");
  trained(folder, "classes", small + "--cond on --set projected.lite=off");
  check_same_picture(folder, "classes", "--class 1");
  check_same_picture(folder, "classes", "--class 0 --noise-mode none");
  trained(folder, "big", small + "--resolution 64 --set projected.lite=off");
  check_same_picture(folder, "big");
}

TEST_CASE("PythonDrawsTheStageThatAModelWasSavedIn") {
  const TemporaryFolder folder;
  for (const std::string recipe : {"pggan"}) {
    const FileTensors tensors = read_safetensors(fixture("resumed-" + recipe));
    write_safetensors(folder / (recipe + ".safetensors"),
                      tensors,
                      {{"gantrain.level", "8"}, {"gantrain.alpha", "0.25"}});
    check_same_picture(folder, recipe + ".safetensors");
    if (!fs::exists(folder / "five.npy")) continue;  // no Python
    CHECK(read_npy(folder / "five.npy").shape == std::vector<int64_t>{3, 8, 8});
  }
}

// The reference's weights of a fixture, "sg2_cond32", as a model file of that name. The tensors
// of `changed` stand in it as they are there.
void write_reference(const TemporaryFolder& folder,
                     const std::string& name,
                     const FileTensors& changed = {},
                     const std::map<std::string, std::string>& metadata = {}) {
  FileTensors tensors = changed;
  for (const auto& [key, tensor] : read_safetensors(fixture(name + "_G")))
    tensors.emplace(key.substr(2), tensor);
  write_safetensors(folder / (name + ".safetensors"), tensors, metadata);
}

// The metadata of a model whose labels are this many numbers: "n0", a class, the others values.
std::map<std::string, std::string> label_vectors(int64_t numbers) {
  Json rows = Json::array(), example = Json::array();
  for (int64_t k = 0; k < numbers; ++k) {
    rows.push_back({{"name", "n" + std::to_string(k)},
                    {"pictures", 2},
                    {"least", 0},
                    {"mean", 0.25},
                    {"most", 1},
                    {"yes_or_no", k == 0}});
    example.push_back(1.0 / static_cast<double>(k + 3));
  }
  return {{"gantrain.classes", Json{{"attributes", rows}, {"examples", {example}}}.dump()}};
}

TEST_CASE("PythonDrawsWhatStyleGan2DrawsOfAClassTruncated") {
  const TemporaryFolder folder;
  write_reference(folder, "sg2_uncond32");
  check_same_picture(folder, "sg2_uncond32.safetensors", "--trunc 0.6");
  write_reference(folder, "sg2_cond32");
  check_same_picture(folder, "sg2_cond32.safetensors", "--class 7 --noise-mode none");
}

TEST_CASE("PythonDrawsEveryArchitectureOfStyleGan2") {
  const TemporaryFolder folder;
  const std::string sizes =
      "train --preset stylegan2-tiny --device cpu --threads 1 --kimg 0 --metrics none --batch 4 "
      "--set stylegan2.channel_max=8 --set stylegan2.z_dim=8 --set stylegan2.w_dim=8 "
      "--set stylegan2.map_depth=2 ";
  for (const std::string how : {"--resolution 16 --set stylegan2.g_architecture=resnet",
                                "--resolution 16 --set stylegan2.g_architecture=orig",
                                "--resolution 32x16 --cond on"}) {
    CAPTURE(how);
    fs::remove_all(folder / "run");
    succeed(folder, sizes + how + " --run-dir run");
    const bool conditional = how.find("--cond") != std::string::npos;
    check_same_picture(folder, "run", conditional ? "--class 3" : "");
  }
}

TEST_CASE("PythonDrawsWhatStyleGan3DrawsMovedOfAClassTruncated") {
  const TemporaryFolder folder;
  // As a move that the file holds, and as one that is asked for.
  const FileTensor transform = read_safetensors(fixture("sg3_t32_io")).at("in/transform");
  write_reference(folder, "sg3_t32", {{"synthesis.input.transform", transform}});
  check_same_picture(folder, "sg3_t32.safetensors", "--trunc 0.6");
  write_reference(folder, "sg3_r32");
  check_same_picture(folder, "sg3_r32.safetensors", "--rotate 30 --translate 0.25,-0.1");
  write_reference(folder, "sg3_t16_c3");
  check_same_picture(folder, "sg3_t16_c3.safetensors", "--class 2 --trunc 0.6");
}

TEST_CASE("PythonDrawsWhatModelsOfLabelVectorsDraw") {
  const TemporaryFolder folder;
  const bool has_torch = python_has({"torch"});
  write_file(folder / "named.csv", "file_name,n1,n0\na.png,0.75,1\n");
  write_file(folder / "row.csv", "1,,0.5\n");
  write_file(folder / "bad.csv", "n0,n7\n1,2\n");
  write_reference(folder, "sg3_t16_c3", {}, label_vectors(3));
  for (const std::string more : {"", "--label named.csv", "--label row.csv"})
    check_same_picture(folder, "sg3_t16_c3.safetensors", more);
  const Json config = Json::parse(read_file(folder / "out/config.json"));
  CHECK(config["classes"]["table"]["attributes"][2]["name"] == "n2");
  const Json test = Json::parse(read_file(folder / "out/self_test.json"));
  CHECK(test["cases"][0]["label"].size() == 3);
  const std::string card = read_file(folder / "out/README.md");
  CHECK(card.find("--label n0=1 -o seed7.png") != std::string::npos);
  CHECK(card.find("| numbers of a label | 3: n0 0 or 1, n1 0 to 1, n2 0 to 1 |") !=
        std::string::npos);
  for (const auto& [more, said] : std::map<std::string, std::string>{
           {"--label n9=1", "n9 is no number of this model's labels: 0 to 2, n0, n1, n2"},
           {"--label n0=nan", "nan is no finite number"},
           {"--label n0", "--label n0: a .csv or .npy file is needed"},
           {"--label none.csv", "none.csv"},
           {"--label bad.csv", "--label bad.csv: n7 is no number"},
           {"--label n0=1,n0=0", "twice"},
           {"--class 1", "is no class, but a value"},
           {"--label n0=1 --class 0", "not allowed with argument"}}) {
    if (!has_torch) break;
    CAPTURE(more);
    CHECK(run_model(folder, "-o five.npy " + more) == 2);
    CHECK(read_file(folder / "said.txt").find(said) != std::string::npos);
  }
  write_reference(folder, "sg2_cond32", {}, label_vectors(10));
  check_same_picture(folder, "sg2_cond32.safetensors", "--label n0=1,9=-0.5 --trunc 0.6");
  trained(folder,
          "run",
          "--preset r3gan-tiny --kimg 0 --set samples.rows=1 --set data.synth_size=64 "
          "--set r3gan.width=16:8,16 --set r3gan.cardinality=4 --set r3gan.z_dim=16 "
          "--data synth:shapes-attributes --cond on");
  check_same_picture(folder, "run", "--class 0");
}

TEST_CASE("OnnxRuntimeDrawsWhatPythonDraws") {
  const TemporaryFolder folder;
  if (!python_has({"torch", "onnxruntime", "onnxscript"})) return;
  const std::vector<std::string> references = {"sg2_cond32", "sg3_t16_c3", "sg3_r32"};
  std::vector<std::string> names = {"dcgan", "pggan", "stylegan1"};
  for (const std::string& name : references) {
    if (name == "sg3_t16_c3")
      write_reference(folder, name, {}, label_vectors(3));
    else
      write_reference(folder, name);
  }
  for (const std::string& recipe : names)
    fs::copy_file(fixture("resumed-" + recipe), folder / (recipe + ".safetensors"));
  names.insert(names.end(), references.begin(), references.end());
  for (const std::string& name : names)
    succeed(folder, "export " + name + ".safetensors --to python -o " + name);
  const int status =
      Python::started().run(folder.path(), source_folder() + "/test/python/onnx_drawn.py", names);
  INFO(read_file(folder / "said.txt"));
  CHECK(status == 0);
}

TEST_CASE("TheSelfTestFailsOfOtherWeights") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 0");
  succeed(folder, "export run --to python -o out");
  if (!python_has({"torch"})) return;
  const std::string alone = "cd " + shell_quote(folder.path().string()) + " && OMP_NUM_THREADS=1 " +
                            python() + " out/model.py --self-test > alone.txt 2>&1";
  REQUIRE(status_of(alone) == 0);
  FileTensors tensors = read_safetensors(folder / "out/model.safetensors");
  FileTensor& weight = tensors.at("main.0.weight");
  weight.bytes[3] = static_cast<char>(weight.bytes[3] ^ 0x80);  // the sign of its first value
  weight.bytes[2] = '\x40';
  weight.bytes[3] = '\x41';  // about 12
  write_safetensors(folder / "out/model.safetensors", tensors, {});
  CHECK(run_model(folder, "--self-test") == 1);
  CHECK(read_file(folder / "said.txt").find("FAILED") != std::string::npos);
}

TEST_CASE("PythonWritesThePngThatGantrainWrites") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 0");
  succeed(folder, "export run --to python -o out");
  if (!python_has({"torch"})) return;
  succeed(folder, "generate --device cpu --model run --seeds 3 --outdir drawn");
  REQUIRE(run_model(folder, "--seed 3 -o three.png") == 0);
  const Image ours = decode_image(read_file(folder / "drawn/seed0003.png"), "ours");
  const Image theirs = decode_image(read_file(folder / "three.png"), "theirs");
  REQUIRE(theirs.width == 16);
  REQUIRE(theirs.channels == ours.channels);
  REQUIRE(theirs.pixels.size() == ours.pixels.size());
  for (size_t i = 0; i < ours.pixels.size(); ++i)
    REQUIRE(std::abs(ours.pixels[i] - theirs.pixels[i]) <= 1);
}

TEST_CASE("PythonWritesSixteenBitsAndAFileForEachOfFiveChannels") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 0 --set data.channels=5 --set data.depth=16");
  trained(folder, "colours", "--kimg 0 --set data.depth=16");
  for (const std::string run : {"run", "colours"}) {
    CAPTURE(run);
    fs::remove_all(folder / "out");
    succeed(folder, "export " + run + " --to python -o out");
    CHECK(Json::parse(read_file(folder / "out/config.json")).at("depth") == 16);
    if (!python_has({"torch"})) return;
    succeed(folder,
            "generate --device cpu --model " + run + " --seeds 3 --outdir " + run + "-drawn");
    REQUIRE(run_model(folder, "--seed 3 -o " + run + ".png") == 0);
    const std::vector<fs::path> files = files_like(folder / (run + "-drawn"), "seed0003");
    REQUIRE(files.size() == (run == "run" ? 5 : 1));
    for (const fs::path& file : files) {
      const std::string end = file.filename().string().substr(std::string("seed0003").size());
      Image ours, theirs;
      decode_image(read_file(file), "ours", {.depth = 16}, ours);
      decode_image(read_file(folder / (run + end)), "theirs", {.depth = 16}, theirs);
      REQUIRE(theirs.depth == 16);
      REQUIRE(theirs.channels == ours.channels);
      REQUIRE(theirs.pixels.size() == ours.pixels.size());
      const auto level = [](const Image& image, size_t i) {
        return image.pixels[2 * i] + 256 * image.pixels[2 * i + 1];
      };
      // The networks agree to 1e-4, which is 3 of 65535 levels.
      for (size_t i = 0; i < ours.pixels.size() / 2; ++i)
        REQUIRE(std::abs(level(ours, i) - level(theirs, i)) <= 4);
    }
  }
}

TEST_CASE("AModelCardSaysWhatTheRunWas") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 0.1");
  const fs::path model = files_like(folder / "run", "model-").back();
  // The number of the most pictures counts, not the one that a quick look gave later.
  for (const auto& [value, fakes] : {std::pair{9.0, 64}, {12.512345, 1024}, {11.0, 64}}) {
    append_line(folder / "run/metric-swd.jsonl",
                Json{{"results", {{"swd", value}}},
                     {"recipe", {{"fakes", fakes}}},
                     {"snapshot", model.filename().string()}}
                    .dump());
  }
  succeed(folder, "export run --to python -o out");
  const std::string card = read_file(folder / "out/README.md");
  for (const std::string text : {"license: # fill in",
                                 "# DCGAN of 16x16 pixels",
                                 "synth:shapes",
                                 "arXiv:1511.06434",
                                 "| swd | 12.51 | 1024 |",
                                 "gantrain generate --model model.safetensors",
                                 "python model.py --seed 7"}) {
    CAPTURE(text);
    CHECK(card.find(text) != std::string::npos);
  }
  // A card that was filled in stays.
  write_file(folder / "out/README.md", "license: mit\n");
  const Outcome again = run_in(folder, "export run --to python -o out");
  CHECK(again.code == 0);
  CHECK(again.err.find("README.md") != std::string::npos);
  CHECK(read_file(folder / "out/README.md") == "license: mit\n");
}

TEST_CASE("AModelCardEscapesWhatAStrangerWrote") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 0");
  const fs::path model = files_like(folder / "run", "model-").back();
  Json config = Json::parse(read_file(folder / "run/config.json"));
  config["values"]["data.path"]["value"] = "/home/somebody/secret/<b>cats_|\x1b[31m/";
  config["values"]["train.seed"]["value"] = "1 |\n# [x](https://e.example) www.e.example";
  write_file(folder / "run/config.json", config.dump());
  append_line(
      folder / "run/metric-swd.jsonl",
      Json{{"results", {{"<img src=x>`", 1}}}, {"snapshot", model.filename().string()}}.dump());
  succeed(folder, "export run --to python -o out");
  const std::string card = read_file(folder / "out/README.md");
  for (const std::string text :
       {R"(| data | &#60;b&#62;cats\_\|\\x1b\[31m |)",
        R"(| seed | 1 \|\\x0a# \[x\](https:&#47;/e.example) www&#46;e.example |)",
        R"(| &#60;img src=x&#62;\` | 1 |)"}) {
    CAPTURE(text, card);
    CHECK(card.find(text) != std::string::npos);
  }
  CHECK(card.find("somebody") == std::string::npos);
}

TEST_CASE("ExportNamesWhatItCannotRead") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 0");
  write_file(folder / "cut.safetensors", "abc");
  write_safetensors(folder / "other.safetensors", {{"a", {"F32", {1}, "abcd"}}}, {});
  const std::string config = read_file(folder / "run/config.json");
  const std::string state = files_like(folder / "run", "state-").back().filename().string();
  const std::vector<std::tuple<std::string, int, std::string>> table = {
      {"cut.safetensors -o out", 3, "cut.safetensors"},
      {"other.safetensors -o out", 3, "no generator of a known recipe"},
      {"none.safetensors -o out", 3, "none.safetensors"},
      {"run -o run", 2, "config.json of something else"},
      {"run --to caffe -o out", 2, "python, hf, onnx, web"},
      {"run --to onnx -o out", 2, "ending in .onnx"},
      {"run --to web -o out", 2, "ending in .html"},
      {"run --to onnx", 2, "-o NAME.onnx"},
      {"run --to onnx -o none/out.onnx", 8, "no folder none"},
      {"run --fp16 -o out", 2, "--to onnx"},
      {"run --label-vectors -o out", 2, "--label-vectors: only with --to onnx"},
      {"run --to onnx --label-vectors -o out.onnx", 2, "is unconditional"},
      {"run --to onnx --runtime a -o out.onnx", 2, "--to web"},
      {"run --to web --runtime a;b -o out.html", 2, "--runtime a;b"},
      {"cut.safetensors --to onnx -o out.onnx", 3, "cut.safetensors"},
      {"other.safetensors --to web -o out.html", 3, "no generator of a known recipe"},
      {"run/" + state + " --to onnx -o out.onnx", 3, state},
      {"run", 2, "-o DIR"},
      {"-o out", 2, "which model"}};
  for (const auto& [arguments, code, named] : table) {
    CAPTURE(arguments);
    const Outcome outcome = run_in(folder, "export " + arguments);
    INFO(outcome.err);
    CHECK(outcome.code == code);
    CHECK(is_one_error_line(outcome.err));
    CHECK(outcome.err.find(named) != std::string::npos);
  }
  for (const std::string left : {"out", "out.onnx", "out.onnx.json", "out.html"})
    CHECK(!fs::exists(folder / left));
  CHECK(read_file(folder / "run/config.json") == config);
}

}  // namespace
}  // namespace gantrain

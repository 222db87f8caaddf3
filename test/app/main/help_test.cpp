// SPDX-License-Identifier: Apache-2.0
// gantrain help TOPIC: what it says is there, and what it names exists.
#include <algorithm>
#include <regex>
#include <set>

#include "config/value.h"
#include "support/catch.h"
#include "support/tiny.h"
#include "util/text.h"

namespace gantrain {
namespace {

std::string said(const std::string& arguments) {
  const Outcome outcome = gantrain(words_of(arguments));
  INFO(arguments << '\n' << outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(outcome.err.empty());
  return outcome.out;
}

std::set<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::set<std::string> all;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at)
    all.insert((*at)[1]);
  return all;
}

std::set<std::string> flags_in(const std::string& text) {
  return matches(text, "(?:^|[^-\\w])(--[a-z][a-z_-]*[a-z])");
}

// The flags of a command, as its --help shows them.
const std::set<std::string>& flags_of(const std::string& command) {
  static std::map<std::string, std::set<std::string>> known;
  if (known.count(command) == 0) known[command] = flags_in(said(command + " --help"));
  return known[command];
}

// The commands of the program, parts as "data pack".
Words commands() {
  Words all;
  const std::string start = said("--help");
  for (const std::string& name : matches(start, "\n  ([a-z]+)  ")) {
    if (name == "data") {
      all.insert(all.end(), {"data inspect", "data pack"});
    } else if (name != "gantrain") {
      all.push_back(name);
    }
  }
  return all;
}

// What gantrain help lists.
const Words& topics() {
  static const Words all = [] {
    const std::set<std::string> names = matches(said("help"), "\n  ([a-z]+)  ");
    return Words(names.begin(), names.end());
  }();
  return all;
}

const std::string& text_of_topic(const std::string& name) {
  static std::map<std::string, std::string> texts;
  if (texts.count(name) == 0) texts[name] = said("help " + name);
  return texts[name];
}

TEST_CASE("HelpListsEveryTopicWithOneLine") {
  Words expected = {"start",
                    "data",
                    "ddp",
                    "gpus",
                    "containers",
                    "slurm",
                    "amp",
                    "resume",
                    "track",
                    "metrics",
                    "edit",
                    "small",
                    "exit",
                    "flags",
                    "keys"};
  std::sort(expected.begin(), expected.end());
  CHECK(topics() == expected);
}

TEST_CASE("ATopicSaysWhatItIsAbout") {
  // A topic, and what stands in it whatever else changes.
  const std::map<std::string, Words> facts = {
      {"start", {"--preset", "--dry-run", "--run-dir", "stylegan2-tiny", "GANTRAIN_PRESET"}},
      {"data", {"--data", "--fit", "data.on_bad", "dataset.json", "--png-level", "--force data"}},
      {"ddp", {"--nproc", "--nnodes", "--ddp-mode", "--max-restarts", "--graphs", "torchrun"}},
      {"gpus", {"580", "535", "cuda-compat-13-0", "/usr/local/cuda/compat", "7.5"}},
      {"containers", {"podman", "apptainer", "enroot", "Kubernetes", "--read-only", "/dev/shm"}},
      {"slurm", {"--partition", "--time-margin", "--requeues", "75", "Kubernetes", "--kind"}},
      {"amp", {"--amp", "--loss-scale", "precision.keep_float32", "GradScaler"}},
      {"resume", {"--run-dir", "--keep-last", "--save-raw", "STOP", "--init-from", "130"}},
      {"track", {"mlflow=", "trackio=", "--follow", "TRACKIO_WRITE_TOKEN", "wandb sync"}},
      {"metrics", {"swd", "precision and recall", "--detector", "--stop-on", "--keep-best"}},
      {"edit", {"--method", "A^T A", "one standard deviation", "lengths[K]", "3:2.5@4-7"}},
      {"small", {"gamma=auto*", "--keep-best", "arXiv:2002.10964", "0.0002", "data inspect"}},
      {"exit", {"128+n", "75", "STATUS", "errors/rank<k>.json", "--stopped-code"}}};
  for (const auto& [topic, parts] : facts) {
    const std::string& text = text_of_topic(topic);
    CAPTURE(topic);
    for (const std::string& part : parts) {
      CAPTURE(part);
      CHECK(text.find(part) != std::string::npos);
    }
    CHECK(text.find("\n@") == std::string::npos);
    for (const std::string& line : split(text, '\n')) {
      CAPTURE(line);
      if (topic != "amp") CHECK(line.size() <= 100);
    }
  }
}

TEST_CASE("EveryFlagInATopicIsAFlagOfTheProgram") {
  std::set<std::string> all;
  const Words every = commands();
  REQUIRE(every.size() > 15);
  for (const std::string& command : every) {
    const std::set<std::string>& own = flags_of(command);
    all.insert(own.begin(), own.end());
  }
  const std::set<std::string>& part = flags_of("bench ddp");  // not in gantrain --help
  all.insert(part.begin(), part.end());
  // Of container programs, where their use is shown.
  const std::set<std::string> foreign = {"--rm",
                                         "--read-only",
                                         "--shm-size",
                                         "--bind",
                                         "--pwd",
                                         "--nv",
                                         "--mount",
                                         "--container-image",
                                         "--container-mounts",
                                         "--container-workdir",
                                         "--sync-tensorboard"};
  for (const std::string& topic : topics()) {
    for (const std::string& flag : flags_in(text_of_topic(topic))) {
      CAPTURE(topic, flag);
      CHECK(all.count(flag) + foreign.count(flag) == 1);
    }
  }
}

TEST_CASE("ACommandInATopicHasItsFlags") {
  for (const std::string& topic : topics()) {
    for (const std::string& line : split(text_of_topic(topic), '\n')) {
      for (const std::string& command : commands()) {
        if (!starts_with(line, "  gantrain " + command + " ")) continue;
        for (const std::string& flag : flags_in(line)) {
          CAPTURE(line, flag);
          CHECK(flags_of(command).count(flag) == 1);
        }
      }
    }
  }
}

TEST_CASE("EveryKeyInATopicIsAKeyOfTheProgram") {
  std::set<std::string> keys, sections;
  for (const Json& row : Json::parse(said("help keys --json"))) {
    const std::string key = row.at("key");
    keys.insert(key);
    if (const size_t dot = key.find('.'); dot != std::string::npos)
      sections.insert(key.substr(0, dot));
  }
  const std::set<std::string> others = {"train.py"};
  for (const std::string& topic : topics()) {
    if (topic == "flags" || topic == "keys") continue;  // these are the tables of keys
    for (const std::string& word :
         matches(text_of_topic(topic), "(?:^|[ (,=])([a-zA-Z]+\\.[a-z_0-9]+(?:\\.[a-z_0-9]+)?)")) {
      if (sections.count(word.substr(0, word.find('.'))) == 0 || others.count(word) == 1) continue;
      if (word == "D.b8") continue;  // a block of a network, for precision.keep_float32
      CAPTURE(topic, word);
      CHECK(keys.count(word) == 1);
    }
  }
}

TEST_CASE("TheListOfTopicsIsThereAsJsonTooWithTheCommands") {
  const Json all = Json::parse(said("help --json"));
  std::set<std::string> names;
  for (const Json& topic : all.at("topics")) names.insert(topic.at("name"));
  CHECK(Words(names.begin(), names.end()) == topics());
  std::set<std::string> computing;
  for (const Json& command : all.at("commands"))
    if (command.at("computes").get<bool>()) computing.insert(command.at("name"));
  CHECK(computing.contains("train"));
  CHECK(computing.contains("metrics"));
  CHECK(!computing.contains("help"));
}

TEST_CASE("TheListOfFlagsHasThoseWithoutAKeyToo") {
  const std::string flags = said("help flags");
  for (const std::string flag :
       {"--smoke", "--dry-run", "--stopped-code", "--json", "--quiet", "--verbose", "--color"})
    CHECK(flags.find("\n" + flag) != std::string::npos);
  for (const std::string& flag : flags_of("train")) {
    CAPTURE(flag);
    CHECK(flags.find(flag) != std::string::npos);
  }
}

TEST_CASE("APresetStandsForItsRecipeInTheListOfKeys") {
  CHECK(said("help keys stylegan2-ada") == said("help keys stylegan2"));
  CHECK(said("help keys projected-lite") == said("help keys projected"));
}

TEST_CASE("TheListOfCommandsSaysWhatHelpIsAboutInOneLine") {
  const std::string start = said("--help");
  CHECK(start.find("\n  help         by topic: start, data, ") != std::string::npos);
  CHECK(start.find(" keys and others\n") != std::string::npos);
}

TEST_CASE("FlagsOfSeveralCommandsInATopicStandUnderTheirCommands") {
  const std::string& data = text_of_topic("data");
  CHECK(data.find("\ndata inspect:\n  --labels") != std::string::npos);
  CHECK(data.find("\ndata pack:\n  --output") != std::string::npos);
  CHECK(text_of_topic("ddp").find("\ngantrain join:\n  --run-dir") != std::string::npos);
}

TEST_CASE("ATopicIsThereAsJsonToo") {
  for (const std::string name : {"start", "ddp", "resume", "amp"})
    CHECK(Json::parse(said("help " + name + " --json")).at("text") == text_of_topic(name));
}

TEST_CASE("AnUnknownTopicNamesTheNearest") {
  for (const auto& [typed, meant] :
       std::vector<std::pair<std::string, std::string>>{{"resme", "resume"},
                                                        {"metric", "metrics"},
                                                        {"slrum", "slurm"},
                                                        {"generat", "generate"}}) {
    const Outcome outcome = gantrain({"help", typed});
    CAPTURE(typed, outcome.err);
    CHECK(outcome.code == 2);
    CHECK(is_one_error_line(outcome.err));
    CHECK_THAT(outcome.err, Catch::Contains("did you mean " + meant));
  }
  const Outcome far = gantrain(words_of("help nonsense"));
  CHECK(far.code == 2);
  CHECK_THAT(far.err, Catch::Contains("there is start, data, ddp"));
}

}  // namespace
}  // namespace gantrain

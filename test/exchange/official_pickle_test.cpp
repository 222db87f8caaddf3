// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <chrono>
#include <map>
#include <random>

#include "exchange/import.h"
#include "recipes/projected/recipe.h"
#include "recipes/r3gan/recipe.h"
#include "recipes/stylegan2/recipe.h"
#include "recipes/stylegan3/recipe.h"
#include "support/catch.h"
#include "support/official_writer.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "util/error.h"
#include "util/file.h"

using namespace gantrain;

namespace {

RecipeTable pickled_recipes() {
  return {stylegan2::row(), stylegan3::row(), r3gan::row(), projected::row()};
}

// The written pickle's content, or "" where there is no Python.
std::string pickle_of(const std::string& set, const std::string& options) {
  const TemporaryFolder folder;
  if (!write_official_pickle(folder / "net.pkl", set, options)) return "";
  return read_file(folder / "net.pkl");
}

std::string message_of(const std::string& content) {
  try {
    read_official_pickle(content, "net.pkl", pickled_recipes());
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kInput);
    CHECK(std::string(e.what()).find("net.pkl: ") == 0);
    return e.what();
  }
  return "";
}

// G_ema's tensors are the fixture's, G's the same with the sign turned, D's the other fixture's.
void check_tensors(const ModelContent& model, const std::string& set) {
  size_t expected = 0;
  const auto check = [&](const std::string& name, const at::Tensor& tensor) {
    CAPTURE(name);
    REQUIRE(model.tensors.count(name) == 1);
    CHECK(model.tensors.at(name).scalar_type() == at::kFloat);
    CHECK(model.tensors.at(name).is_contiguous());
    CHECK(torch::equal(model.tensors.at(name), tensor));
    ++expected;
  };
  for (const auto& [name, tensor] : fixture("sg2_" + set + "32_G").tensors) {
    check(name.substr(2), tensor);
    check("G." + name.substr(2), -tensor);
  }
  for (const auto& [name, tensor] : fixture("sg2_" + set + "32_D").tensors)
    check("D." + name.substr(2), tensor);
  CHECK(model.tensors.size() == expected);
}

Json config_of(const std::string& set) {
  return Json::parse(fixture("sg2_" + set + "32_G").metadata.at("config"));
}

}  // namespace

TEST_CASE("SnapshotsOfEitherRepositoryAreReadWhole") {
  for (const std::string set : {"uncond", "cond"}) {
    for (const std::string options :
         {"protocol=4", "protocol=2 class=training.networks.Generator", "protocol=5 numpy=_core"}) {
      CAPTURE(set, options);
      const std::string content = pickle_of(set, options);
      if (content.empty()) return;
      const ModelContent imported = read_official_pickle(content, "net.pkl", pickled_recipes());
      check_tensors(imported, set);
      Json model = imported.model;
      CHECK(model["recipe"] == "stylegan2");
      model.erase("recipe");
      CHECK(model == config_of(set));
    }
  }
}

TEST_CASE("StyleGan3sArgumentsAreFlatAndHaveOtherDefaults") {
  for (const std::string name : {"Generator", "training.networks_stylegan2.Generator"}) {
    CAPTURE(name);
    const std::string content = pickle_of("cond", "repository=stylegan3 class=" + name);
    if (content.empty()) return;
    const ModelContent imported = read_official_pickle(content, "net.pkl", pickled_recipes());
    check_tensors(imported, "cond");
    Json expected = config_of("cond");
    expected["mapping_kwargs"]["w_avg_beta"] = 0.998;
    Json model = imported.model;
    model.erase("recipe");
    CHECK(model == expected);
  }
}

// T, R and conditional networks; the recipe builds its generator of what is read.
TEST_CASE("StyleGan3sOwnSnapshotsAreReadWhole") {
  for (const std::string set : {"sg3_t32", "sg3_r32", "sg3_t16_c3"}) {
    for (const std::string name : {"Generator", "training.networks_stylegan3.Generator"}) {
      CAPTURE(set, name);
      const std::string content = pickle_of(set, "class=" + name);
      if (content.empty()) return;
      const ModelContent imported = read_official_pickle(content, "net.pkl", pickled_recipes());
      const TensorFile file = fixture(set + "_G");
      for (const auto& [key, tensor] : file.tensors)
        CHECK(torch::equal(imported.tensors.at(key.substr(2)), tensor));
      Json model = imported.model;
      CHECK(model["recipe"] == "stylegan3");
      model.erase("recipe");
      CHECK(model == Json::parse(file.metadata.at("config")));
    }
  }
}

TEST_CASE("NetworksBesideTheAverageMayBeMissing") {
  const std::string content = pickle_of("uncond", "size=tiny without=D");
  if (content.empty()) return;
  bool generator = false;
  for (const auto& [name, tensor] :
       read_official_pickle(content, "net.pkl", pickled_recipes()).tensors) {
    CHECK(name.find("D.") != 0);
    generator = generator || name == "G.synthesis.b8.torgb.bias";
  }
  CHECK(generator);
}

TEST_CASE("WhatIsNotSupportedIsNamed") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> table = {
      {"without=G_ema", {"no G_ema", "training_set_kwargs, G, D, augment_pipe"}},
      {"without=synthesis.b4.const", {"synthesis.b4.const is missing"}},
      {"without=mapping.w_avg", {"mapping.w_avg is missing"}},
      {"class=training.networks_stylegan3.Generator",
       {"training.networks_stylegan3.Generator", "training.networks_stylegan2.Generator"}},
      {"class=SynthesisNetwork", {"SynthesisNetwork", "training.networks.Generator"}},
      {"structure=stylegan3", {"synthesis.input.freqs is missing"}},
      {"structure=stylegan3 class=training.networks_stylegan2.Generator",
       {"training.networks_stylegan2.Generator", "its layers are not"}},
      {"argument=activation:\"relu\"", {"synthesis_kwargs.activation = \"relu\"", "\"lrelu\""}},
      {"argument=resample_filter:[1,2,1]", {"resample_filter = [1,2,1]", "[1,3,3,1]"}},
      {"argument=magic:7", {"synthesis_kwargs.magic = 7"}},
  };
  for (const auto& [option, named] : table) {
    CAPTURE(option);
    const std::string content = pickle_of("uncond", "size=tiny " + option);
    if (content.empty()) return;
    const std::string message = message_of(content);
    CAPTURE(message);
    for (const std::string& part : named) CHECK(message.find(part) != std::string::npos);
  }
}

TEST_CASE("WhatHasNoEffectIsAccepted") {
  const std::string content = pickle_of("uncond", "size=tiny argument=resample_filter:[1,3,3,1]");
  if (content.empty()) return;
  const ModelContent imported = read_official_pickle(content, "net.pkl", pickled_recipes());
  CHECK_FALSE(imported.model["synthesis_kwargs"].contains("resample_filter"));
}

TEST_CASE("HostileGlobalsInASnapshotAreNamed") {
  const std::string content = pickle_of("uncond", "size=tiny");
  if (content.empty()) return;
  for (const std::string name : {"os system", "builtins eval", "subprocess Popen", "nt system"}) {
    CAPTURE(name);
    std::string evil = content;
    std::string global = "c" + name + "\n0";
    global[global.find(' ')] = '\n';
    evil.insert(evil.size() - 1, global);  // before STOP: everything else has been read
    std::string dotted = name;
    dotted[dotted.find(' ')] = '.';
    const std::string message = message_of(evil);
    CHECK(message.find("global " + dotted + " is not allowed") != std::string::npos);
    CHECK(message.find("byte ") != std::string::npos);
  }
}

TEST_CASE("ModulesInsideThemselvesEnd") {
  const std::string content = pickle_of("uncond", "size=tiny protocol=2");
  if (content.empty()) return;
  const auto text = [](const std::string& value) {
    return "X" + std::string(1, static_cast<char>(value.size())) + std::string(3, '\0') + value;
  };
  // Memo \xf2: the dict of a module's modules, which then gets the module (\xf3) itself, twice.
  const std::string state = "}" + text("_modules") + "}q\xf2s";
  const std::string meta = "}(" + text("type") + text("class") + text("class_name") + text("A") +
                           text("state") + state + "u";
  const std::string module =
      "ctorch_utils.persistence\n_reconstruct_persistent_obj\n" + meta + "\x85Rq\xf3";
  const std::string twice = "h\xf2(" + text("a") + "h\xf3" + text("b") + "h\xf3u0";
  std::string evil = content.substr(0, content.size() - 1);
  evil += text("D") + module + twice + "s.";
  const auto start = std::chrono::steady_clock::now();
  CHECK(message_of(evil).find("without end") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}

// Random damage: a few bytes changed, the end cut off, or a part left out.
TEST_CASE("DamagedSnapshotsEndInNetworksOrInAnError") {
  const std::string whole = pickle_of("uncond", "size=tiny");
  if (whole.empty()) return;
  const ModelContent sound = read_official_pickle(whole, "net.pkl", pickled_recipes());
  std::mt19937 random(5);  // NOLINT: the same damage every time
  int errors = 0, networks = 0;
  double longest = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string content = whole;
    if (round % 8 == 0) {
      content.resize(random() % content.size());
    } else if (round % 8 == 1) {
      content.erase(random() % content.size(), 1 + random() % 40);
    } else {
      for (int i = 0; i <= round % 3; ++i)
        content[random() % content.size()] = static_cast<char>(random());
    }
    const auto start = std::chrono::steady_clock::now();
    ++(message_of(content).empty() ? networks : errors);
    longest = std::max(
        longest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  CHECK(errors > 500);
  CHECK(networks > 100);
  CHECK(longest < 5);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  CHECK(usage.ru_maxrss < 2'000'000);  // kB, with LibTorch and, in another build, a sanitizer
  CHECK(sound.tensors.size() > 60);
}

// Plain modules: a class of R3GAN's own and its attributes.
TEST_CASE("SnapshotsOfR3GanAreReadWhole") {
  for (const std::string set : {"uncond32", "cond16"}) {
    CAPTURE(set);
    const std::string content = pickle_of("r3gan_" + set, "structure=r3gan protocol=4");
    if (content.empty()) return;
    const ModelContent imported = read_official_pickle(content, "net.pkl", pickled_recipes());
    size_t expected = 0;
    for (const std::string network : {"G", "D"}) {
      for (const auto& [name, tensor] : fixture("r3gan_" + set + "_" + network).tensors) {
        CAPTURE(name);
        const std::string bare = name.substr(2);
        REQUIRE(imported.tensors.count(network + "." + bare) == 1);
        const at::Tensor& raw = imported.tensors.at(network + "." + bare);
        CHECK(torch::equal(raw, network == "G" ? -tensor : tensor));
        if (network == "G") CHECK(torch::equal(imported.tensors.at(bare), tensor));
        expected += network == "G" ? 2 : 1;
      }
    }
    CHECK(imported.tensors.size() == expected);
    CHECK(imported.model["recipe"] == "r3gan");
    CHECK(imported.model["img_resolution"] == (set == "cond16" ? 16 : 32));
    CHECK(imported.model["c_dim"] == (set == "cond16" ? 5 : 0));
    CHECK(imported.model["img_channels"] == 3);
  }
  const std::string content =
      pickle_of("r3gan_cond16", "structure=r3gan without=Model.AggregationLayer.Layer.weight");
  if (content.empty()) return;
  CHECK_THAT(message_of(content),
             Catch::Contains("Model.AggregationLayer.Layer.weight is missing"));
}

// Plain modules again, with spectral norm's hooks; the constructor's arguments are attributes.
TEST_CASE("SnapshotsOfProjectedGanAreReadWhole") {
  const RecipeTable recipes = pickled_recipes();
  for (const std::string set : {"big64", "lite32_c5"}) {
    CAPTURE(set);
    const std::string content = pickle_of("proj_" + set, "structure=projected protocol=4");
    if (content.empty()) return;
    const ModelContent imported = read_official_pickle(content, "net.pkl", recipes);
    size_t expected = 0;
    const TensorFile file = fixture("proj_" + set + "_G");
    for (const auto& [name, tensor] : file.tensors) {
      CAPTURE(name);
      CHECK(torch::equal(imported.tensors.at(name.substr(2)), tensor));
      CHECK(imported.tensors.count("G." + name.substr(2)) == 1);
      expected += 2;
    }
    for (const auto& [name, tensor] : fixture("proj_" + set + "_D").tensors) {
      CAPTURE(name);
      CHECK(torch::equal(imported.tensors.at("D." + name.substr(2)), tensor));
      ++expected;
    }
    CHECK(imported.tensors.size() == expected);
    const Json config = Json::parse(file.metadata.at("config"));
    CHECK(imported.model["recipe"] == "projected");
    for (const char* key : {"z_dim", "c_dim", "img_resolution", "img_channels", "ngf"}) {
      CAPTURE(key);
      CHECK(imported.model[key] == config[key]);
    }
    CHECK(imported.model["synthesis_kwargs"]["lite"] == config["synthesis_kwargs"]["lite"]);
    CHECK_NOTHROW(recipes.back().make_generator(imported.model, imported.tensors, "net.pkl"));
  }
  const auto said = [](const std::string& options) {
    const std::string content = pickle_of("proj_big64", "structure=projected " + options);
    return content.empty() ? std::string() : message_of(content);
  };
  if (said("").empty() && pickle_of("proj_big64", "structure=projected").empty()) return;
  CHECK_THAT(said("without=synthesis.to_big.weight_orig"),
             Catch::Contains("synthesis.to_big.weight_orig"));
  CHECK_THAT(said("global=evil-system"), Catch::Contains("global evil.system is not allowed"));
}

// SPDX-License-Identifier: Apache-2.0
#include "core/tensors.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "train/save/checkpoint.h"
#include "train/step/toy_recipe.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"

using namespace gantrain;

namespace {

struct Toy {
  explicit Toy(int64_t side)
      : config(toy_config({{"data.resolution", side}})),
        recipe(toy_row().make({config, 0, square_of(side), 3, {}, at::kCPU, at::kFloat})) {
    for (const Player* player : recipe->players()) {
      for (const auto& [name, tensor] : state_of(*player->network))
        tensors[player->name + "." + name] = tensor;
    }
    std::map<std::string, at::Tensor> state;
    for (const auto& [name, tensor] : state_of(*recipe->players().front()->network))
      state[name] = tensor;
    ema = toy_row().make_generator({}, state, "test");
    load_into(*ema->network(), state, "test");
    for (const auto& [name, tensor] : state_of(*ema->network())) tensors["G_ema." + name] = tensor;
  }

  Config config;
  std::unique_ptr<Recipe> recipe;
  std::unique_ptr<Generator> ema;
  std::map<std::string, at::Tensor> tensors;  // under the table's names
};

// The toy's tensors as a model file has them, filled with numbers of their own.
NamedTensors other_weights(const Toy& toy) {
  NamedTensors all;
  double value = 1;
  for (const auto& [name, tensor] : toy.tensors) {
    const std::string key = name.rfind("G_ema.", 0) == 0 ? name.substr(6) : name;
    all.emplace_back(key, torch::full_like(tensor.detach(), value++));
  }
  return all;
}

// The toy, whose weight a file calls "level", and whose bias follows from its size.
class Renaming final : public Recipe {
 public:
  explicit Renaming(Recipe& toy) : toy_(toy) {}
  std::vector<Player*> players() override { return toy_.players(); }
  const std::vector<Phase>& phases() const override { return toy_.phases(); }
  Json model() const override { return toy_.model(); }
  TensorNames names_in(const std::map<std::string, at::Tensor>& file,
                       const Player&) const override {
    CHECK(file.count("D.level") == 1);
    return [](const std::string& name) -> NameInFile {
      return {name == "weight" ? "level" : name, name == "bias"};
    };
  }

 private:
  Recipe& toy_;
};

double first(const at::Tensor& tensor) { return tensor.flatten()[0].item<double>(); }

std::vector<std::string> names_of(const std::vector<InitTable::Row>& rows) {
  std::vector<std::string> names;
  for (const InitTable::Row& row : rows) names.push_back(row.name);
  return names;
}

}  // namespace

TEST_CASE("EveryTensorComesFromItsNamesake") {
  const TemporaryFolder folder;
  const Toy toy(8);
  const NamedTensors weights = other_weights(toy);
  save_safetensors(folder / "model-000001.safetensors", weights, {});
  save_safetensors(folder / "model-000000.safetensors", {}, {});
  for (const auto& source : {folder / "model-000001.safetensors", folder.path()}) {
    const InitTable table = init_from(source, *toy.recipe, *toy.ema->network());
    CHECK(table.file == folder / "model-000001.safetensors");
    CHECK(table.loaded.size() == toy.tensors.size());
    CHECK(table.reinitialised.empty());
    CHECK(table.skipped.empty());
    for (const auto& [name, tensor] : weights) {
      CAPTURE(name);
      const bool player = toy.tensors.count(name) == 1;
      CHECK(torch::equal(toy.tensors.at(player ? name : "G_ema." + name), tensor));
    }
  }
}

TEST_CASE("WithoutARawGeneratorItStartsAtTheAverage") {
  const TemporaryFolder folder;
  const Toy toy(8);
  const at::Tensor weight = torch::full_like(toy.tensors.at("G_ema.weight").detach(), 7);
  const double before = first(toy.tensors.at("D.weight"));
  save_safetensors(folder / "m.safetensors", {{"weight", weight}}, {});
  const InitTable table = init_from(folder / "m.safetensors", *toy.recipe, *toy.ema->network());
  CHECK(table.loaded == std::vector<std::string>{"G_ema.weight", "G.weight"});
  REQUIRE(names_of(table.reinitialised) ==
          std::vector<std::string>{"G_ema.running_mean", "G.running_mean"});
  CHECK(table.reinitialised[0].reason == "[2], missing in the file");
  CHECK(table.afresh == std::vector<std::string>{"D"});
  CHECK(first(toy.tensors.at("G.weight")) == 7);
  CHECK(first(toy.tensors.at("G_ema.weight")) == 7);
  CHECK(first(toy.tensors.at("D.weight")) == before);
}

TEST_CASE("AnotherShapeIsLeftAndWhatIsTooMuchIsSkipped") {
  const TemporaryFolder folder;
  NamedTensors weights = other_weights(Toy(16));
  weights.emplace_back("G.more", torch::zeros({2}));
  save_safetensors(folder / "m.safetensors", weights, {});
  const Toy toy(8);
  const double before = first(toy.tensors.at("G.weight"));
  const InitTable table = init_from(folder / "m.safetensors", *toy.recipe, *toy.ema->network());
  CHECK(table.loaded == std::vector<std::string>{"G_ema.running_mean", "G.running_mean", "D.bias"});
  CHECK(names_of(table.reinitialised) ==
        std::vector<std::string>{"G_ema.weight", "G.weight", "D.weight"});
  CHECK(table.reinitialised[0].reason == "[5, 768] in the file, [5, 192] here");
  REQUIRE(names_of(table.skipped) == std::vector<std::string>{"G.more"});
  CHECK(table.skipped[0].reason == "[2]");
  CHECK(first(toy.tensors.at("G.weight")) == before);
}

TEST_CASE("ATensorComesFromWhatTheFileCallsItAndTheTableSaysSo") {
  const TemporaryFolder folder;
  const Toy toy(8);
  Renaming recipe(*toy.recipe);
  const auto like = [&](const std::string& name, double value) {
    return torch::full_like(toy.tensors.at(name).detach(), value);
  };
  save_safetensors(folder / "m.safetensors",
                   {{"level", like("G_ema.weight", 1)},
                    {"weight", like("G_ema.weight", 2)},  // another level's
                    {"G.level", like("G.weight", 3)},
                    {"D.level", like("D.weight", 4)},
                    {"D.bias", like("D.bias", 5)}},
                   {});
  const InitTable table = init_from(folder / "m.safetensors", recipe, *toy.ema->network());
  CHECK(table.loaded == std::vector<std::string>{"G_ema.weight from level",
                                                 "G.weight from G.level",
                                                 "D.weight from D.level"});
  CHECK(names_of(table.reinitialised) ==
        std::vector<std::string>{"G_ema.running_mean", "G.running_mean"});
  CHECK(names_of(table.skipped) == std::vector<std::string>{"weight"});
  CHECK(first(toy.tensors.at("G_ema.weight")) == 1);
  CHECK(first(toy.tensors.at("G.weight")) == 3);
  CHECK(first(toy.tensors.at("D.weight")) == 4);
  CHECK(first(toy.tensors.at("D.bias")) == 0);
}

TEST_CASE("AFloat64FileIsRounded") {
  const TemporaryFolder folder;
  const Toy toy(8);
  const at::Tensor bias = torch::full({1}, 1.0 / 3, at::kDouble);
  save_safetensors(folder / "m.safetensors", {{"D.bias", bias}}, {});
  init_from(folder / "m.safetensors", *toy.recipe, *toy.ema->network());
  CHECK(toy.tensors.at("D.bias").scalar_type() == at::kFloat);
  CHECK(torch::equal(toy.tensors.at("D.bias").detach(), bias.to(at::kFloat)));
}

TEST_CASE("AFileThatGivesNothingIsRefusedByName") {
  const TemporaryFolder folder;
  const Toy toy(8);
  // A buffer alone is no network.
  save_safetensors(folder / "m.safetensors",
                   {{"count", torch::zeros({2})}, {"other", torch::zeros({2})}},
                   {{"gantrain.model", R"({"recipe":"stylegan2"})"}});
  write_file(folder / "cut.safetensors", "12345");
  std::filesystem::create_directory(folder / "empty");
  const auto message_of = [&](const std::string& name) -> std::string {
    try {
      init_from(folder / name, *toy.recipe, *toy.ema->network());
    } catch (const UserError& e) {
      CHECK(e.code() == Exit::kInput);
      return e.what();
    }
    return "";
  };
  CHECK_THAT(message_of("m.safetensors"),
             Catch::Contains("m.safetensors: of 2 tensors, none has the name and shape") &&
                 Catch::Contains("stylegan2"));
  save_safetensors(folder / "nan.safetensors", {{"weight", torch::full({8}, std::nan(""))}}, {});
  CHECK_THAT(message_of("nan.safetensors"),
             Catch::Contains("nan.safetensors: tensor weight: 8 of 8 values are not finite"));
  CHECK_THAT(message_of("cut.safetensors"), Catch::Contains("cut.safetensors"));
  CHECK_THAT(message_of("empty"), Catch::Contains("empty"));
  CHECK_THAT(message_of("none"), Catch::Contains("none"));
}

TEST_CASE("TheWholeTableIsInTheLogsFile") {
  const TemporaryFolder folder;
  InitTable table;
  table.file = "m.safetensors";
  for (int i = 0; i < 30; ++i) {
    table.loaded.push_back("G.loaded" + std::to_string(i));
    table.reinitialised.push_back({"G.fresh" + std::to_string(i), "missing in the file"});
  }
  table.skipped = {{"D.more", "[2]"}};
  set_log({Level::kError, Level::kInfo, folder / "log.txt", ""});
  log_table(table);
  set_log({Level::kError, Level::kInfo, {}, ""});
  const std::string log = read_file(folder / "log.txt");
  CHECK_THAT(log,
             Catch::Contains("m.safetensors: 30 tensors loaded, 30 re-initialised, 1 skipped"));
  CHECK_THAT(log, Catch::Contains("skipped D.more: [2]"));
  for (int i = 0; i < 30; ++i) {
    CHECK_THAT(log, Catch::Contains(fmt::format("loaded G.loaded{}\n", i)));
    CHECK_THAT(log, Catch::Contains(fmt::format("re-initialised G.fresh{}: missing", i)));
  }
}

TEST_CASE("AFileOfAnotherRecipeIsNamedWithBothRecipes") {
  const TemporaryFolder folder;
  const Toy toy(8);
  const std::string own = text_of(toy.recipe->model().at("recipe"));
  const std::string both = "it was trained with recipe otherone, and this run is of recipe " + own;
  const std::map<std::string, std::string> about = {
      {"gantrain.model", R"({"recipe": "otherone", "z_dim": 4})"}};
  save_safetensors(folder / "none.safetensors", {{"x", torch::zeros({3})}}, about);
  try {
    init_from(folder / "none.safetensors", *toy.recipe, *toy.ema->network());
    FAIL("nothing of it fits");
  } catch (const UserError& e) {
    CHECK_THAT(e.what(), Catch::Contains(both));
  }
  save_safetensors(folder / "some.safetensors", other_weights(toy), about);
  keep_log_lines();
  take_kept_lines();
  init_from(folder / "some.safetensors", *toy.recipe, *toy.ema->network());
  const std::vector<std::string> lines = take_kept_lines();
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains(both));
}

TEST_CASE("OnlyLayersThatCameWithWeightsStayAsTheyAre") {
  const std::vector<std::string> layers = {"b16.fromrgb", "b16.conv0", "b8.conv0"};
  const auto refusal = [&](int64_t frozen, const InitTable* table) -> std::string {
    try {
      check_freezing({frozen, layers}, table);
      return "";
    } catch (const UserError& e) {
      CHECK(e.code() == Exit::kUsage);
      return e.what();
    }
  };
  InitTable table;
  table.file = "m.safetensors";
  table.loaded = {"G.b16.conv0.weight",
                  "D.b16.fromrgb.weight",
                  "D.b16.fromrgb.bias from D.b8.fromrgb.bias",
                  "D.b16.conv0.weight",
                  "D.b8.conv0.weight"};
  CHECK(refusal(0, nullptr).empty());
  CHECK(refusal(3, &table).empty());
  CHECK_THAT(refusal(2, nullptr),
             Catch::Contains("freeze_d = 2: without --init-from") &&
                 Catch::Contains("at most 0 can stay"));
  CHECK_THAT(refusal(4, &table),
             Catch::Contains("D has 3 layers") && Catch::Contains("at most 3 can stay"));
  table.reinitialised = {{"D.b16.conv0.bias", "missing in the file"}};
  CHECK(refusal(1, &table).empty());
  CHECK_THAT(refusal(2, &table),
             Catch::Contains("D's b16.conv0 came without weights from m.safetensors") &&
                 Catch::Contains("at most 1 can stay"));
  table.loaded = {"G.b16.conv0.weight"};
  CHECK_THAT(refusal(1, &table), Catch::Contains("at most 0 can stay"));
}

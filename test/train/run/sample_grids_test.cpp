// SPDX-License-Identifier: Apache-2.0
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "train/run/reporter.h"
#include "train/step/toy_recipe.h"
#include "util/file.h"

using namespace gantrain;

namespace {

SampleOptions grid_of(int64_t columns, int64_t rows) {
  SampleOptions samples;
  samples.columns = columns;
  samples.rows = rows;
  return samples;
}

std::shared_ptr<const Dataset> drawn_shapes() {
  DataOptions options;
  options.resolution = square_of(16);
  options.synth_size = 40;
  return open_dataset(options);
}

// Each picture is filled with its label.
class LabelPainter final : public Generator {
 public:
  explicit LabelPainter(int64_t classes) : classes_(classes) {}
  std::shared_ptr<torch::nn::Module> network() override { return nullptr; }
  int64_t z_dim() const override { return 2; }
  int64_t classes() const override { return classes_; }
  at::Tensor images(const at::Tensor& z,
                    const at::Tensor& labels,
                    const SynthesisOptions&) override {
    most = std::max(most, z.size(0));
    return labels.to(at::kByte).view({-1, 1, 1, 1}).expand({z.size(0), 3, 16, 16});
  }

  int64_t most = 0;  // pictures that were made together

 private:
  int64_t classes_;
};

// Pictures of one colour, their label; class 1 of three has none.
class FlatColours final : public Dataset {
 public:
  int64_t size() const override { return 12; }
  int64_t channels() const override { return 3; }
  int64_t classes() const override { return 3; }
  int64_t label(int64_t index) const override { return index % 2 == 0 ? 0 : 2; }
  Image load(int64_t index) const override {
    return {16, 16, 3, std::vector<uint8_t>(16 * 16 * 3, static_cast<uint8_t>(100 + label(index)))};
  }
  std::string description() const override { return "flat"; }
};

// The first value of each cell.
std::vector<int64_t> cell_values(const Image& grid) {
  std::vector<int64_t> values;
  for (int64_t y = 0; y < grid.height; y += 16) {
    for (int64_t x = 0; x < grid.width; x += 16)
      values.push_back(grid.pixels[static_cast<size_t>((y * grid.width + x) * grid.channels)]);
  }
  return values;
}

}  // namespace

TEST_CASE("ARowHoldsOneClassWhereThereAreAtMostAsManyClassesAsRows") {
  using Labels = std::vector<int64_t>;
  CHECK(grid_labels(grid_of(2, 3), 3) == Labels{0, 0, 1, 1, 2, 2});
  CHECK(grid_labels(grid_of(2, 4), 3) == Labels{0, 0, 0, 0, 1, 1, 2, 2});
  CHECK(grid_labels(grid_of(2, 2), 1) == Labels{0, 0, 0, 0});
  CHECK(grid_labels(grid_of(2, 2), 0).empty());
}

TEST_CASE("MoreClassesThanRowsFollowEachOtherInOrder") {
  const std::vector<int64_t> labels = grid_labels(grid_of(4, 2), 4);
  CHECK(labels == std::vector<int64_t>{0, 0, 1, 1, 2, 2, 3, 3});
  const std::vector<int64_t> some = grid_labels(grid_of(8, 8), 1000);
  CHECK(std::is_sorted(some.begin(), some.end()));
  CHECK(some.front() == 0);
  CHECK(some.back() == 984);
}

TEST_CASE("EachOfAFewClassesHasARowUnlessSomebodyHasSaidHowMany") {
  const auto config = [](const char* origin) {
    Config all = toy_config();
    all.set("samples.rows", 8, origin);
    return all;
  };
  CHECK(grid_rows(config("default"), 10, "") == 10);
  CHECK(grid_rows(config("default"), 3, "") == 8);
  CHECK(grid_rows(config("default"), 0, "") == 8);
  CHECK(grid_rows(config("default"), 1000, "") == 8);
  CHECK(grid_rows(config("flag --set"), 10, "") == 8);
  // A run that goes on keeps its own.
  const TemporaryFolder folder;
  CHECK(grid_rows(config("default"), 10, folder.path()) == 10);
  write_file(folder / "config.json", R"({"values": {"samples.rows": {"value": 9}}})");
  CHECK(grid_rows(config("default"), 10, folder.path()) == 9);
  write_file(folder / "config.json", R"({"values": {"samples.rows": "9"}})");
  CHECK(grid_rows(config("default"), 10, folder.path()) == 10);
}

TEST_CASE("ConditionalGridsAreSortedByClass") {
  LabelPainter generator(3);
  SampleGrids grids(generator, std::make_shared<FlatColours>(), square_of(16), grid_of(2, 3), 1);
  CHECK(cell_values(grids.fake_grid()) == std::vector<int64_t>{0, 0, 1, 1, 2, 2});
  CHECK(cell_values(grids.real_grid()) == std::vector<int64_t>{100, 100, 0, 0, 102, 102});
}

// 64 pictures of a million pixels would need a hundred gigabytes in the largest layers.
TEST_CASE("ASheetOfLargePicturesIsMadeAFewAtATime") {
  const auto sheet = [](int64_t pixels) {
    LabelPainter generator(3);
    SampleGrids grids(
        generator, std::make_shared<FlatColours>(), square_of(pixels), grid_of(8, 8), 1);
    const std::vector<int64_t> cells = cell_values(grids.fake_grid());
    return std::pair(generator.most, cells);
  };
  CHECK(sheet(16).first == 64);
  CHECK(sheet(256).first == 16);
  CHECK(sheet(1024) == std::pair(int64_t{4}, sheet(16).second));
}

TEST_CASE("GridsAreTheSameAtEveryCall") {
  const auto generator =
      toy_row().make_generator({}, {{"weight", torch::ones({5, 3 * 16 * 16})}}, "test");
  SampleGrids grids(*generator, drawn_shapes(), square_of(16), grid_of(3, 2), 1);
  const Image grid = grids.fake_grid();
  CHECK(grid.width == 48);
  CHECK(grid.height == 32);
  CHECK(grid.pixels == grids.fake_grid().pixels);
  CHECK(grids.real_grid().pixels == grids.real_grid().pixels);
  CHECK(grid.pixels != grids.real_grid().pixels);
}

// SPDX-License-Identifier: Apache-2.0
#include "ddp_table/ddp_table.h"
#include "support/catch.h"
#include "support/tensor_checks.h"

using namespace gantrain;

TEST_CASE("TheGansAreThoseOfTheirStages") {
  for (const bool progressive : {false, true}) {
    const auto gan = make_table_gan(progressive);
    for (int64_t i = 0; i < 9; ++i) {
      const TableStage stage = gan->stage_at(i);
      CAPTURE(progressive, i);
      const at::Tensor fake = gan->generate(torch::ones({2, TableGan::kLatents}), stage);
      CHECK(fake.sizes() == at::IntArrayRef({2, 3, gan->side(stage), gan->side(stage)}));
      const at::Tensor scores = gan->judge(fake, stage);
      CHECK(scores.sizes() == at::IntArrayRef({2}));
      scores.sum().backward();
      // The loss reaches exactly the parameters that are active.
      for (const NamedTensors* net : {&gan->G, &gan->D}) {
        for (auto [name, parameter] : *net) {
          CAPTURE(name);
          CHECK(parameter.grad().defined() == gan->is_active(name, stage));
          parameter.mutable_grad() = at::Tensor();
        }
      }
    }
  }
}

TEST_CASE("TheStaticGanNeverChangesAndTheProgressiveOneGrows") {
  const auto still = make_table_gan(false), growing = make_table_gan(true);
  CHECK(still->stage_at(0).same_graph(still->stage_at(8)));
  int changes = 0;
  for (int64_t i = 1; i < 9; ++i)
    changes += growing->stage_at(i).same_graph(growing->stage_at(i - 1)) ? 0 : 1;
  CHECK(changes == 4);
}

// SPDX-License-Identifier: Apache-2.0
#include <ATen/Version.h>
#include <torch/version.h>

#include <algorithm>

#include "core/torch.h"
#include "ddp_table/ddp_table.h"
#include "distributed/options.h"
#include "doctor_facts.h"
#include "local_world.h"
#include "trainer_verbs.h"
#include "util/error.h"

namespace gantrain {

namespace {

constexpr int64_t kSeconds = 120;  // for one cell

std::vector<std::string> run_ranks(int64_t world,
                                   const std::function<std::string(const Rendezvous&)>& body) {
  return run_local_world(world, kSeconds, body);
}

// Before this process's first LibTorch call: it forks.
int ddp_table(bool json) {
  check_options({}, /*ranks=*/2);
  const std::vector<CellResult> results = measure_ddp_table(run_ranks);
  if (json) {
    fmt::print("{}\n", Json{{"ddp_table", ddp_table_json(results)}}.dump());
  } else {
    fmt::print("{}", ddp_table_text(results));
  }
  const bool as_expected = std::all_of(results.begin(), results.end(), [](const CellResult& r) {
    return r.text().rfind(expected_text(r.cell), 0) == 0;
  });
  return static_cast<int>(as_expected ? Exit::kDone : Exit::kInternal);
}

}  // namespace

int doctor(const DoctorRequest& request) {
  if (request.ddp_table) return ddp_table(request.json);
  Json facts = request.facts;
  facts["libtorch"] = fmt::format("{}, {}", TORCH_VERSION, at::get_cpu_capability());
  print_facts(facts, request.json);
  if (!request.json)
    fmt::print("\nnext: gantrain --smoke trains for a moment; gantrain doctor --ddp-table\n");
  return 0;
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "train/reporter.h"

#include <catch2/catch.hpp>

#include "spawn_ranks.h"
#include "temporary_folder.h"
#include "tensor_checks.h"
#include "util/error.h"
#include "util/file.h"

using namespace gantrain;

TEST_CASE("ARowHoldsTheMeansOverAllRanks") {
  const TemporaryFolder folder;
  CHECK(failed_ranks(2, [&](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          Reporter reporter(group, 1000, 0);
          if (r.rank == 0) reporter.open(folder.path(), 0);
          reporter.record("Loss/scores/real", torch::full({3}, static_cast<double>(r.rank)));
          reporter.record("Loss/G/loss", torch::tensor(2.0));
          reporter.tick({64, 1, 1, 0.5});
          reporter.finish();
          return 0;
        }) == 0);
  const Json row = Json::parse(read_file(folder / "stats.jsonl"));
  CHECK(row["Loss/scores/real"]["num"] == 6);
  CHECK(row["Loss/scores/real"]["mean"] == 0.5);
  CHECK(row["Loss/G/loss"]["num"] == 2);
  CHECK(row["Progress/kimg"]["mean"] == 0.064);
  for (const char* key :
       {"Progress/tick", "Timing/sec_per_kimg", "Resources/cpu_mem_gb", "timestamp"})
    CHECK(row.contains(key));
}

TEST_CASE("ALossThatIsNotFiniteStopsAllRanks") {
  CHECK(failed_ranks(2, [&](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          Reporter reporter(group, 1000, 0);
          reporter.record("Loss/G/loss", torch::tensor(r.rank == 1 ? NAN : 1.0));
          try {
            reporter.tick({64, 1, 1, 0.5});
          } catch (const UserError& e) {
            return e.code() == Exit::kDiverged && std::string(e.what()).find("Loss/G/loss") == 0
                       ? 0
                       : 1;
          }
          return 1;
        }) == 0);
}

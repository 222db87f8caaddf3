// SPDX-License-Identifier: Apache-2.0
#include "data/lmdb_writer.h"

#include <lmdb.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

namespace gantrain {

void write_lmdb(const std::string& folder,
                const std::vector<std::pair<std::string, std::string>>& entries,
                size_t batch) {
  const auto check = [](int code) {
    if (code != MDB_SUCCESS) throw std::runtime_error(mdb_strerror(code));
  };
  std::filesystem::create_directories(folder);
  MDB_env* environment = nullptr;
  check(mdb_env_create(&environment));
  check(mdb_env_set_mapsize(environment, size_t{1} << 28));
  check(mdb_env_open(environment, folder.c_str(), MDB_NOSYNC, 0644));
  for (size_t first = 0; first < entries.size(); first += batch) {
    MDB_txn* transaction = nullptr;
    MDB_dbi database = 0;
    check(mdb_txn_begin(environment, nullptr, 0, &transaction));
    check(mdb_dbi_open(transaction, nullptr, 0, &database));
    for (size_t i = first; i < std::min(first + batch, entries.size()); ++i) {
      std::string key = entries[i].first;
      std::string content = entries[i].second;
      MDB_val key_value = {key.size(), key.data()};
      MDB_val value = {content.size(), content.data()};
      check(mdb_put(transaction, database, &key_value, &value, 0));
    }
    check(mdb_txn_commit(transaction));
  }
  mdb_env_close(environment);
}

}  // namespace gantrain

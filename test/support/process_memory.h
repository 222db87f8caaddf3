// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

#include "support/catch.h"

namespace gantrain {

// While it lives, this process and what it starts may have so many bytes of addresses each.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(rlim_t bytes) {
    REQUIRE(getrlimit(RLIMIT_AS, &before_) == 0);
    const rlimit limit{bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
  }
  ~AddressSpaceLimit() { setrlimit(RLIMIT_AS, &before_); }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;

 private:
  rlimit before_{};
};

// Memory of this process in bytes, by /proc/self/statm.
struct ProcessMemory {
  int64_t addresses = 0;  // what it has addresses for
  int64_t resident = 0;   // what lies in RAM
};

inline ProcessMemory process_memory() {
  std::ifstream file("/proc/self/statm");
  ProcessMemory pages;
  file >> pages.addresses >> pages.resident;
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  return {pages.addresses * page, pages.resident * page};
}

}  // namespace gantrain

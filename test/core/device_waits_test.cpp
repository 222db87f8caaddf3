// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "core/device.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

bool waits_are_errors = false;

// Makes the CPU a device whose waits can be errors, for one test.
struct NotedOnCpu {
  NotedOnCpu() {
    set_wait_errors(c10::DeviceType::CPU, [](bool on) { waits_are_errors = on; });
  }
  ~NotedOnCpu() { set_wait_errors(c10::DeviceType::CPU, nullptr); }
};

}  // namespace

TEST_CASE("WaitsAreErrorsOnlyWhileAskedForAndAlsoNotAfterAnException") {
  const NotedOnCpu noted;
  {
    const WaitsAreErrors not_asked_for(c10::DeviceType::CPU, false);
    CHECK_FALSE(waits_are_errors);
  }
  {
    const WaitsAreErrors asked_for(c10::DeviceType::CPU, true);
    CHECK(waits_are_errors);
  }
  CHECK_FALSE(waits_are_errors);
  const auto fails = [] {
    const WaitsAreErrors asked_for(c10::DeviceType::CPU, true);
    if (waits_are_errors) throw std::runtime_error("in the middle");
  };
  CHECK_THROWS_WITH(fails(), "in the middle");
  CHECK_FALSE(waits_are_errors);
}

TEST_CASE("ADeviceWithoutWaitErrorsIsLeftAlone") {
  CHECK_NOTHROW(WaitsAreErrors(c10::DeviceType::CPU, true));
  CHECK_NOTHROW(wait_for(c10::Device(c10::DeviceType::CPU)));
}

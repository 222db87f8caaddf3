// SPDX-License-Identifier: Apache-2.0
// Two functions in the versions that systems with glibc 2.34 and GCC 11's libstdc++ have, too (RHEL
// 9, Ubuntu 22.04). A library of Debian 12 would else ask for their newest versions, hypot of
// glibc 2.35 and condition_variable::wait of GCC 12, and not be loaded there. What
// app/CMakeLists.txt links with --wrap=NAME calls __wrap_NAME instead of NAME.
#include <condition_variable>
#include <mutex>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GLIBCXX__)

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier): the linker gives these names
double gantrain_hypot(double x, double y);
void gantrain_wait(std::condition_variable* condition, std::unique_lock<std::mutex>& lock);
asm(".symver gantrain_hypot, hypot@GLIBC_2.2.5");
asm(".symver gantrain_wait, "
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");

[[gnu::visibility("hidden")]] double __wrap_hypot(double x, double y) {
  return gantrain_hypot(x, y);
}

[[gnu::visibility("hidden")]] void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* condition, std::unique_lock<std::mutex>& lock) {
  gantrain_wait(condition, lock);
}
// NOLINTEND(bugprone-reserved-identifier)

}  // extern "C"

#endif

// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <functional>
#include <thread>

#include "data/pictures/dataset.h"
#include "support/catch.h"
#include "util/error.h"

namespace gantrain {

namespace {

constexpr int64_t kPictures = 40;
constexpr int64_t kSide = 1000;  // pixels: a picture has a million bytes
constexpr int64_t kBytes = kSide * kSide;

// Grey pictures whose pixels are all their index. Loads of all processes are counted.
class Grey final : public Dataset {
 public:
  Grey() {
    void* memory =
        mmap(nullptr, sizeof(*loads_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    loads_ = static_cast<std::atomic<int>*>(memory);
  }
  ~Grey() override { munmap(loads_, sizeof(*loads_)); }
  Grey(const Grey&) = delete;
  Grey& operator=(const Grey&) = delete;

  int64_t size() const override { return kPictures; }
  int64_t channels() const override { return 1; }
  int64_t classes() const override { return 3; }
  int64_t label(int64_t index) const override { return index % 3; }
  std::string description() const override { return "grey"; }
  Image load(int64_t index) const override {
    loads_->fetch_add(1);
    if (index == bad) fail(Exit::kInput, "picture {}", index);
    return {kSide, kSide, 1, std::vector<uint8_t>(kBytes, static_cast<uint8_t>(index))};
  }
  int loads() const { return *loads_; }

  int64_t bad = -1;

 private:
  std::atomic<int>* loads_ = nullptr;
};

// Whether every picture has its pixels, seen from this process.
bool all_right(const Dataset& dataset) {
  LoadBuffers buffers;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const ImageView view = dataset.view(i, buffers);
    if (view.width != kSide || view.height != kSide || view.channels != 1) return false;
    for (int64_t at = 0; at < kBytes; ++at) {
      if (view.pixels[at] != i) return false;
    }
  }
  return true;
}

// Runs `work` in a forked process; how that ended.
int in_another_process(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("PicturesThatOneProcessLoadedAreThereForTheOthers") {
  const auto grey = std::make_shared<Grey>();
  const auto cache = cached(grey, square_of(kSide), kPictures * kBytes / 2, 2);
  CHECK(in_another_process([&] { return all_right(*cache); }) == 0);
  CHECK(grey->loads() == kPictures);
  CHECK(all_right(*cache));
  CHECK(in_another_process([&] { return all_right(*cache); }) == 0);
  CHECK(grey->loads() == kPictures);
  CHECK(cache->label(5) == 2);
}

TEST_CASE("ProcessesThatLoadAtTheSameTimeSeeWholePictures") {
  const auto grey = std::make_shared<Grey>();
  const auto cache = cached(grey, square_of(kSide), kPictures * kBytes, 3);
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      bool right = false;
      std::thread other([&] { right = all_right(*cache); });
      const bool mine = all_right(*cache);
      other.join();
      _exit(mine && right ? 0 : 1);
    }
    children.push_back(child);
  }
  CHECK(all_right(*cache));
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
}

TEST_CASE("ProcessKilledWhileItStoresLeavesNoHalfPicture") {
  const auto grey = std::make_shared<Grey>();
  for (int microseconds = 0; microseconds < 8000; microseconds += 400) {
    const auto cache = cached(grey, square_of(kSide), kPictures * kBytes, 2);
    const pid_t child = fork();
    if (child == 0) {
      all_right(*cache);
      for (;;) pause();
    }
    usleep(static_cast<useconds_t>(microseconds));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    CHECK(all_right(*cache));
    CHECK(all_right(*cache));
  }
}

TEST_CASE("FullCacheLoadsTheRestEachTime") {
  const auto grey = std::make_shared<Grey>();
  const int64_t sharers = GENERATE(1, 2);
  const auto cache = cached(grey, square_of(kSide), 10 * kBytes / sharers + 5, sharers);
  CHECK(all_right(*cache));
  CHECK(all_right(*cache));
  CHECK(grey->loads() == 2 * kPictures - 10);
}

// Sanitizers take all the addresses there are for themselves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("ProcessesKeepTheirOwnPicturesWhereSharedMemoryIsRefused") {
  const auto grey = std::make_shared<Grey>();
  const int ended = in_another_process([&] {
    long pages = 0;
    FILE* statm = std::fopen("/proc/self/statm", "r");
    if (statm == nullptr || std::fscanf(statm, "%ld", &pages) != 1) return false;
    std::fclose(statm);
    // Room for one share of 20 pictures and not for two.
    const auto room = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + 33 * kBytes);
    const rlimit limit{room, room};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
    const auto cache = cached(grey, square_of(kSide), kPictures * kBytes / 2, 2);
    return all_right(*cache) && all_right(*cache);
  });
  CHECK(ended == 0);
  CHECK(grey->loads() == 2 * kPictures - 20);
}
#endif

TEST_CASE("PictureThatCannotBeLoadedIsNotKept") {
  const auto grey = std::make_shared<Grey>();
  const auto cache = cached(grey, square_of(kSide), kPictures * kBytes, 2);
  grey->bad = 3;
  LoadBuffers buffers;
  for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(cache->view(3, buffers), UserError);
  grey->bad = -1;
  CHECK(all_right(*cache));
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "launch/death/death.h"

#include <signal.h>

#include <algorithm>

#include "support/catch.h"

namespace gantrain {

namespace {

constexpr int64_t kMs = 1'000'000;

Death failed(int64_t rank, int64_t ms, int code, const std::string& message) {
  return {
      .host = "host", .rank = rank, .pid = 4711, .ns = ms * kMs, .code = code, .message = message};
}

Death killed(int64_t rank, int64_t ms, int signal) {
  return {.host = "host", .rank = rank, .pid = 4711, .ns = ms * kMs, .signal = signal};
}

const char* kGloo = "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4242";

const char* kWatchdog =
    "[PG ID 0 PG GUID 0 Rank 0] Process group watchdog thread terminated with exception: [Rank 0] "
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, "
    "NumelOut=1, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.";

Death aborted(int64_t rank, int64_t ms, const std::string& message) {
  Death failure = failed(rank, ms, 1, message);
  failure.signal = SIGABRT;
  return failure;
}

}  // namespace

TEST_CASE("ARankThatNcclsWatchdogAbortsIsAVictim") {
  CHECK(is_victim(aborted(0, 20, kWatchdog)));
  CHECK(waited_in_vain(aborted(0, 20, kWatchdog)));
  const char* lost =
      "[Rank 0] Process group watchdog thread terminated with exception: NCCL error in: "
      "NCCLUtils.cpp:77, remote process exited or there was a network error, NCCL version 2.28.9";
  CHECK(is_victim(aborted(0, 20, lost)));
  CHECK_FALSE(waited_in_vain(aborted(0, 20, lost)));
}

TEST_CASE("AnAbortThatNoPeerCausedIsACause") {
  // A CUDA error that the watchdog finds is the rank's own.
  CHECK_FALSE(is_victim(aborted(0,
                                20,
                                "[Rank 0] Process group watchdog thread terminated with exception: "
                                "CUDA error: an illegal memory access was encountered")));
  CHECK_FALSE(is_victim(aborted(0, 20, "a bug in a thread: connection reset")));
  CHECK_FALSE(is_victim(killed(0, 20, SIGABRT)));
  Death segfault = aborted(0, 20, kWatchdog);
  segfault.signal = SIGSEGV;
  CHECK_FALSE(is_victim(segfault));
}

TEST_CASE("TroubleWithFilesOrMemoryIsNoVictimsWhateverItsWords") {
  for (const int code : {2, 3, 5, 7, 8}) {
    CHECK_FALSE(is_victim(failed(0, 0, code, "state.pt: write error: no space left on device")));
  }
  CHECK(is_victim(failed(0, 0, 4, "all-reduce failed: write error")));
}

TEST_CASE("TheReportKeepsTheLineThatNamesNcclsCause") {
  const Death failure = aborted(
      1,
      0,
      "[Rank 1] Process group watchdog thread terminated with exception: NCCL error in: "
      "NCCLUtils.cpp:77, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL "
      "version 2.28.9\nncclSystemError: System call (e.g. socket, malloc) or external library call "
      "failed or device error. \nLast error:\nNo space left on device (28): /dev/shm/nccl-AbCdEf\n"
      "Exception raised from checkForNCCLErrorsInternal at ProcessGroupNCCL.cpp:2363 (most recent "
      "call first):\nframe #0: c10::Error::Error");
  const std::string text = death_text(failure, 1);
  CHECK_THAT(
      text,
      Catch::StartsWith("rank 1 (host, pid 4711) died of signal 6 (SIGABRT) before the first "
                        "iteration: No space left on device (28): /dev/shm/nccl-AbCdEf\n"));
  CHECK_THAT(text, Catch::Contains("NCCL 2.28.9: unhandled system error"));
  CHECK_THAT(text, !Catch::Contains("frame") && !Catch::Contains("Exception raised"));
}

TEST_CASE("ARankThatDidNotComeIsNamedBeforeTheOneThatWaited") {
  Death behind = failed(1, 0, 0, "");
  behind.phase = "reading data";
  behind.iteration = 7;
  CHECK(
      behind_text(behind) + waiting_text(failed(0, 0, 1, "Timed out waiting 2000ms")) ==
      "rank 1 (host, pid 4711) is behind, in phase \"reading data\" at iteration 7; rank 0 waited "
      "for it in vain: Timed out waiting 2000ms");
}

TEST_CASE("TheWorldsExitCodeIsTheRanksIfItMeansSomething") {
  for (int code = 2; code <= 8; ++code) CHECK(exit_code(failed(0, 0, code, "")) == code);
  CHECK(exit_code(failed(0, 0, 1, "")) == 6);
  CHECK(exit_code(failed(0, 0, 99, "")) == 6);
  CHECK(exit_code(killed(0, 0, SIGSEGV)) == 6);
  Death by_kernel = killed(0, 0, SIGKILL);
  CHECK(exit_code(by_kernel) == 6);
  by_kernel.host_was_short = true;
  CHECK(exit_code(by_kernel) == 7);
  CHECK(is_restartable(killed(0, 0, SIGSEGV)));
  CHECK(is_restartable(failed(0, 0, 1, "")));
  CHECK_FALSE(is_restartable(failed(0, 0, 3, "")));
}

TEST_CASE("AReportNamesRankHostPidPhaseAndProgress") {
  Death failure = killed(1, 0, SIGKILL);
  failure.phase = "D backward";
  failure.iteration = 100;
  failure.images_seen = 12345;
  const std::string text = death_text(failure, 1);
  CHECK_THAT(text,
             Catch::StartsWith("rank 1 (host, pid 4711) died of signal 9 (SIGKILL) in phase \"D "
                               "backward\" at 12.3 kimg"));
  CHECK_THAT(text, Catch::Contains("out-of-memory"));
  CHECK_THAT(death_text(failed(0, 0, 1, kGloo), 2), Catch::Contains("another node"));
}

TEST_CASE("BadInputBeforeTheFirstIterationIsTheMessageAlone") {
  Death failure = failed(1, 0, 3, "photo.png is broken");
  CHECK(death_text(failure, 1) == "photo.png is broken");
  failure.iteration = 1;
  CHECK_THAT(death_text(failure, 1), Catch::StartsWith("rank 1 (host, pid 4711) failed"));
}

TEST_CASE("LongMessagesKeepThreeLines") {
  const std::string text = death_text(failed(1, 0, 1, "a\nb\nc\nd\ne"), 1);
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
}

}  // namespace gantrain

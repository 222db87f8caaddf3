// SPDX-License-Identifier: Apache-2.0
#include "draw/frames.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <vector>

#include "launch/local/processes.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

int64_t frame_count(const Walk& walk) {
  return walk.loop ? walk.keys * walk.frames : (walk.keys - 1) * walk.frames + 1;
}

Step step_of(const Walk& walk, int64_t frame) {
  int64_t from = frame / walk.frames;
  int64_t part = frame % walk.frames;
  if (!walk.loop && from == walk.keys - 1) {
    --from;
    part = walk.frames;
  }
  return {
      from, (from + 1) % walk.keys, static_cast<double>(part) / static_cast<double>(walk.frames)};
}

std::string frame_name(int64_t frame, int64_t count) {
  const size_t digits = std::max<size_t>(4, std::to_string(count - 1).size());
  return fmt::format("frame{:0{}}", frame, digits);
}

namespace {

constexpr int kVideo = 3;         // ffmpeg's descriptor of the file that it writes
constexpr int kFirstFree = 10;    // ours stay clear of those that ffmpeg gets
constexpr double kBitRate = 0.5;  // bits a pixel: 16 Mbit/s at 1024 pixels and 30 frames

// Raw frames in, and what every player shows out, whose sides must be even.
std::vector<std::string> command(const std::string& program, const Mp4Encoder::Format& format) {
  const double rate = static_cast<double>(format.width * format.height) * format.fps * kBitRate;
  const std::string options = fmt::format(
      "-nostdin -loglevel error -f rawvideo -pix_fmt rgb24 -s {}x{} -r {} -i pipe:0 -an "
      "-vf pad=ceil(iw/2)*2:ceil(ih/2)*2 -pix_fmt yuv420p -b:v {} -movflags +faststart -f mp4 -y "
      "/proc/self/fd/{}",
      format.width,
      format.height,
      shortest(format.fps),
      std::max<int64_t>(1'000'000, static_cast<int64_t>(rate)),
      kVideo);
  std::vector<std::string> words = split(options, ' ');
  words.insert(words.begin(), program);
  return words;
}

UniqueFd checked(int fd, const char* what) {
  if (fd < 0) fail(Exit::kEnvironment, "ffmpeg cannot be started: {}: {}", what, errno_text());
  UniqueFd low(fd);
  UniqueFd high(fcntl(fd, F_DUPFD_CLOEXEC, kFirstFree));
  if (!high) fail(Exit::kEnvironment, "ffmpeg cannot be started: {}: {}", what, errno_text());
  return high;
}

std::string content_of(const UniqueFd& file) {
  return read_file(fmt::format("/proc/self/fd/{}", file.get()));
}

std::string last_line(const std::string& text) {
  std::string last;
  for (const std::string& line : split(text, '\n')) {
    if (!trim(line).empty()) last = trim(line);
  }
  return last;
}

struct Ends {
  int input;
  int error;
  int video;
  pid_t parent;
};

// In the child: only async-signal-safe calls, the parent has threads.
[[noreturn]] void become_ffmpeg(char* const* argv, const Ends& ends) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != ends.parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(ends.input, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  dup2(ends.error, STDERR_FILENO);
  dup2(ends.video, kVideo);
  execv(argv[0], argv);
  _exit(127);
}

bool is_mp4(const fs::path& file) { return ends_with(lower(file.string()), ".mp4"); }

class WebpSink final : public FrameSink {
 public:
  WebpSink(const fs::path& file, const FilmOptions& options) : file_(file), options_(options) {}

  void add(const Image& frame) override {
    if (!animation_) begin(frame);
    animation_->add(frame);
  }
  void finish() override { write_file(file_, animation_.value().finish()); }

 private:
  void begin(const Image& frame) {
    check_frame_size(
        "-o", file_, {frame.width, frame.height}, "use .mp4, --outdir or a smaller --grid");
    const AnimationOptions webp = {.fps = options_.fps, .quality = options_.quality};
    animation_.emplace(frame.width, frame.height, webp);
  }

  fs::path file_;
  FilmOptions options_;
  std::optional<WebpAnimation> animation_;  // from the first frame on
};

class Mp4Sink final : public FrameSink {
 public:
  Mp4Sink(const fs::path& file, double fps) : file_(file), fps_(fps) {}

  void add(const Image& frame) override {
    if (!encoder_)
      encoder_.emplace(find_program("ffmpeg"), Mp4Encoder::Format{frame.width, frame.height, fps_});
    encoder_->add(frame);
  }
  void finish() override { write_file(file_, encoder_.value().finish()); }

 private:
  fs::path file_;
  double fps_;
  std::optional<Mp4Encoder> encoder_;
};

class FolderSink final : public FrameSink {
 public:
  FolderSink(const fs::path& folder, int64_t count) : folder_(folder), count_(count) {
    make_writable_folder(folder_);
    warn_of_earlier(folder_, "frame", count, [=](int64_t i) { return frame_name(i, count); });
  }

  void add(const Image& frame) override {
    write_file(folder_ / (frame_name(next_++, count_) + ".png"), encode_png(frame));
  }
  void finish() override {}

 private:
  fs::path folder_;
  int64_t count_;
  int64_t next_ = 0;
};

}  // namespace

Mp4Encoder::Mp4Encoder(const std::filesystem::path& ffmpeg, const Format& format)
    : format_(format), program_(ffmpeg.string()) {
  // A socket, because a pipe whose reader is gone sends a signal.
  int pair[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    fail(Exit::kEnvironment, "ffmpeg cannot be started: {}", errno_text());
  frames_ = checked(pair[0], "a socket");
  const UniqueFd input = checked(pair[1], "a socket");
  video_ = checked(memfd_create("video", MFD_CLOEXEC), "memory");
  words_ = checked(memfd_create("words", MFD_CLOEXEC), "memory");
  std::vector<std::string> words = command(program_, format_);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const Ends ends = {input.get(), words_.get(), video_.get(), getpid()};
  pid_ = fork();
  if (pid_ == 0) become_ffmpeg(argv.data(), ends);
  if (pid_ < 0) fail(Exit::kEnvironment, "ffmpeg cannot be started: {}", errno_text());
}

Mp4Encoder::~Mp4Encoder() {
  if (pid_ <= 0) return;
  signal_process(pid_, SIGKILL);
  wait();
}

int Mp4Encoder::wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
  return status;
}

void Mp4Encoder::fail_ffmpeg(int status) {
  const std::string how = WIFSIGNALED(status) ? signal_text(WTERMSIG(status))
                                              : fmt::format("exit code {}", WEXITSTATUS(status));
  const std::string line = last_line(content_of(words_));
  fail(Exit::kEnvironment,
       "{} failed ({}){}{}; -o NAME.webp needs no ffmpeg",
       program_,
       how,
       line.empty() ? "" : ": ",
       line);
}

void Mp4Encoder::add(const Image& frame) {
  if (frame.width != format_.width || frame.height != format_.height)
    throw std::invalid_argument("Mp4Encoder: a frame of another size");
  const Image rgb = with_channels(frame, 3);
  const uint8_t* data = rgb.pixels.data();
  size_t left = rgb.pixels.size();
  while (left > 0) {
    const ssize_t done = ::send(frames_.get(), data, left, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_ffmpeg(wait());
    data += done;
    left -= static_cast<size_t>(done);
  }
}

std::string Mp4Encoder::finish() {
  frames_.close();
  const int status = wait();
  std::string video = content_of(video_);
  if (status != 0 || video.empty()) fail_ffmpeg(status);
  return video;
}

void warn_of_earlier(const fs::path& folder,
                     const std::string& stem,
                     int64_t count,
                     const std::function<std::string(int64_t)>& name) {
  std::vector<std::string> earlier;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string file = at->path().filename().string();
    if (!starts_with(file, stem) || at->path().extension() != ".png") continue;
    const auto number = parse_int(at->path().stem().string().substr(stem.size()));
    if (!number || *number < 0) continue;
    if (*number >= count || name(*number) + ".png" != file) earlier.push_back(file);
  }
  if (earlier.empty()) return;
  warn("{}: also holds {} of an earlier command: {}{}",
       folder.string(),
       counted(static_cast<int64_t>(earlier.size()), "file"),
       *std::ranges::min_element(earlier),
       earlier.size() > 1 ? ", ..." : "");
}

void check_frame_size(const std::string& flag,
                      const fs::path& file,
                      Size frame,
                      const std::string& mend) {
  if (is_mp4(file) || frame.longer() <= kMaxWebpSide) return;
  fail(Exit::kUsage,
       "{} {}: frames of {} x {} pixels; WebP holds {} a side: {}",
       flag,
       file.string(),
       frame.width,
       frame.height,
       kMaxWebpSide,
       mend);
}

std::unique_ptr<FrameSink> film_sink(const fs::path& file, const FilmOptions& options) {
  if (is_mp4(file)) return std::make_unique<Mp4Sink>(file, options.fps);
  return std::make_unique<WebpSink>(file, options);
}

std::unique_ptr<FrameSink> folder_sink(const fs::path& folder, int64_t count) {
  return std::make_unique<FolderSink>(folder, count);
}

}  // namespace gantrain

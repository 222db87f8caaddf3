// SPDX-License-Identifier: Apache-2.0
#include "launch/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <string_view>

#include "util/standard_error.h"

namespace gantrain {

namespace {

std::string_view last_drawn(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const size_t redraw = line.rfind('\r');
  return redraw == std::string_view::npos ? line : line.substr(redraw + 1);
}

}  // namespace

void clear_live_bar() {
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  if (terminal) write_standard_error("\r\033[K", Unread::kDrop);
}

void Output::add(int64_t rank, UniqueFd pipe) {
  set_nonblocking(pipe.get());
  streams_.push_back({rank, std::move(pipe), ""});
}

void Output::watch(std::vector<pollfd>& polled) const {
  for (const Stream& stream : streams_) {
    if (stream.pipe) polled.push_back({stream.pipe.get(), POLLIN, 0});
  }
}

void Output::relay() {
  for (Stream& stream : streams_) {
    if (!stream.pipe) continue;
    read_available(stream);
    print_lines(stream, !stream.pipe);
  }
}

void Output::finish() {
  relay();
  for (Stream& stream : streams_) print_lines(stream, true);
  streams_.clear();
}

// At most 1 MiB a turn, so that a rank that prints without end does not keep the launcher busy.
void Output::read_available(Stream& stream) {
  char buffer[64 * 1024];
  for (int turn = 0; turn < 16; ++turn) {
    const ssize_t size = ::read(stream.pipe.get(), buffer, sizeof buffer);
    if (size > 0) {
      stream.pending.append(buffer, static_cast<size_t>(size));
    } else if (size == 0) {
      stream.pipe.close();
      return;
    } else if (errno != EINTR) {
      return;
    }
  }
}

void Output::print_lines(Stream& stream, bool unfinished_too) {
  std::string text;
  std::string_view rest = stream.pending;
  while (!rest.empty()) {
    const size_t newline = rest.find('\n');
    const bool whole = newline < kLongestLine;  // npos is not
    if (!whole && rest.size() < kLongestLine && !unfinished_too) break;
    const std::string_view line = rest.substr(0, whole ? newline : kLongestLine);
    fmt::format_to(std::back_inserter(text), "[rank {}] {}\n", stream.rank, last_drawn(line));
    rest.remove_prefix(line.size() + (whole ? 1 : 0));
  }
  stream.pending.erase(0, stream.pending.size() - rest.size());
  if (text.empty()) return;
  clear_live_bar();
  write_standard_error(text);
}

}  // namespace gantrain

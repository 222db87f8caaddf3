// SPDX-License-Identifier: Apache-2.0
#include "util/csv.h"

#include <algorithm>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

char separator_of(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  for (const char candidate : {',', '\t', ';'}) {
    if (line.find(candidate) != std::string_view::npos) return candidate;
  }
  return ',';
}

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& name)
      : text_(text), name_(name), separator_(separator_of(text)) {}

  std::vector<std::vector<std::string>> rows(std::vector<int64_t>* lines) {
    std::vector<std::vector<std::string>> rows;
    int64_t line = 1;
    while (at_ < text_.size()) {
      const size_t start = at_;
      std::vector<std::string> row = this->row();
      if (row.size() > 1 || !row.front().empty()) {
        rows.push_back(std::move(row));
        if (lines != nullptr) lines->push_back(line);
      }
      const auto* begin = text_.data();
      line += std::count(begin + start, begin + at_, '\n');
    }
    return rows;
  }

 private:
  std::vector<std::string> row() {
    std::vector<std::string> fields;
    while (true) {
      fields.push_back(field());
      const bool more = at_ < text_.size() && text_[at_] == separator_;
      if (at_ < text_.size()) ++at_;  // the separator or the end of the line
      if (!more) return fields;
    }
  }

  std::string field() {
    size_t start = at_;
    while (start < text_.size() && text_[start] == ' ') ++start;
    if (start < text_.size() && text_[start] == '"') {
      at_ = start + 1;
      std::string value = quoted();
      at_ = end_of_plain();  // what follows the quote is left out
      return value;
    }
    start = at_;
    at_ = end_of_plain();
    return trim(text_.substr(start, at_ - start));
  }

  size_t end_of_plain() const {
    size_t end = at_;
    while (end < text_.size() && text_[end] != separator_ && text_[end] != '\n') ++end;
    return end;
  }

  std::string quoted() {
    const size_t start = at_;
    std::string value;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c != '"') {
        value += c;
      } else if (at_ < text_.size() && text_[at_] == '"') {
        value += text_[at_++];
      } else {
        return value;
      }
    }
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<long>(start), '\n');
    fail(Exit::kInput, "{}: line {}: a quote is not closed", name_, line);
  }

  std::string_view text_;
  const std::string& name_;
  const char separator_;
  size_t at_ = 0;
};

}  // namespace

std::vector<std::vector<std::string>> read_csv(std::string_view text,
                                               const std::string& name,
                                               std::vector<int64_t>* lines) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (starts_with(text, kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return CsvReader(text, name).rows(lines);
}

std::optional<std::vector<std::pair<std::string, double>>> parse_assignments(
    std::string_view text) {
  std::vector<std::pair<std::string, double>> all;
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.rfind('=');
    const auto value = equals == std::string::npos
                           ? std::nullopt
                           : parse_double(trim(std::string_view(part).substr(equals + 1)));
    if (!value || trim(part.substr(0, equals)).empty()) return std::nullopt;
    all.emplace_back(trim(part.substr(0, equals)), *value);
  }
  return all;
}

}  // namespace gantrain

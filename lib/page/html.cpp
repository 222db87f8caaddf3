// SPDX-License-Identifier: Apache-2.0
#include "page/html.h"

#include <fmt/format.h>

#include "page/page_style.h"

namespace gantrain {

namespace {

// Bytes of the character that begins at `at`, 0 if it is no UTF-8 (RFC 3629, without overlong
// forms' finer rules, which no browser minds).
size_t character_size(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  return size;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t'; }

std::string_view entity_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return "";
  }
}

}  // namespace

std::string escape_html(std::string_view text) {
  constexpr std::string_view kReplacement = "\uFFFD";
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t size = character_size(text, i);
    const std::string_view entity = entity_of(text[i]);
    if (size == 0 || (size == 1 && is_control(text[i]))) {
      out += kReplacement;
    } else if (!entity.empty()) {
      out += entity;
    } else {
      out += text.substr(i, size);
    }
    i += size == 0 ? 1 : size;
  }
  return out;
}

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{}</style>\n</head>\n"
      "<body>\n{}<script>{}</script>\n</body>\n</html>\n",
      escape_html(title),
      kPageStyle,
      body,
      kPageScript);
}

std::string html_section(const std::string& title, const std::string& html) {
  if (html.empty()) return "";
  return fmt::format("<h2>{}</h2>\n{}", escape_html(title), html);
}

std::string html_folded(const std::string& title, const std::string& html) {
  if (html.empty()) return "";
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", escape_html(title), html);
}

std::string html_table(const std::vector<std::string>& heads,
                       const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<div class=\"wide\"><table>\n<tr>";
  for (const std::string& head : heads) out += "<th>" + escape_html(head) + "</th>";
  out += "</tr>\n";
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (const std::string& cell : row) out += "<td>" + escape_html(cell) + "</td>";
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string out;
  for (const auto& [name, value] : facts) {
    if (value.empty()) continue;
    out +=
        fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(name), escape_html(value));
  }
  return out.empty() ? "" : "<dl>\n" + out + "</dl>\n";
}

}  // namespace gantrain

// SPDX-License-Identifier: Apache-2.0
#include "page/html.h"

#include <fmt/format.h>

#include "util/text.h"

namespace gantrain {

namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t'; }

std::string_view entity_of(char c) {
  constexpr std::pair<char, std::string_view> kEntities[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  for (const auto& [character, entity] : kEntities) {
    if (c == character) return entity;
  }
  return "";
}

}  // namespace

std::string escape_html(std::string_view text) {
  constexpr std::string_view kReplacement = "\uFFFD";
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t size = utf8_size(text, i);
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
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n"
      "<body>\n{}<script>\n{}</script>\n</body>\n</html>\n",
      escape_html(title),
      page_files().at("style.css"),
      body,
      page_files().at("script.js"));
}

std::string html_section(const std::string& title, const std::string& html) {
  if (html.empty()) return "";
  return fmt::format("<h2>{}</h2>\n{}", escape_html(title), html);
}

std::string html_folded(const std::string& title, const std::string& html) {
  if (html.empty()) return "";
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", escape_html(title), html);
}

std::string html_cells(const std::string& html) {
  return html.empty() ? "" : "<div class=\"cells\">\n" + html + "</div>\n";
}

std::string html_table_of(const std::vector<std::string>& heads, const std::string& rows_html) {
  std::string out = "<div class=\"wide\"><table>\n<tr>";
  for (const std::string& head : heads) out += "<th>" + escape_html(head) + "</th>";
  return out + "</tr>\n" + rows_html + "</table></div>\n";
}

std::string html_table(const std::vector<std::string>& heads,
                       const std::vector<std::vector<std::string>>& rows) {
  std::string out;
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (const std::string& cell : row) out += "<td>" + escape_html(cell) + "</td>";
    out += "</tr>\n";
  }
  return html_table_of(heads, out);
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

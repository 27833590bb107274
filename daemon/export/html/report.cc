#include "daemon/export/html/report.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/export/html/assets.h"
#include "daemon/export/html/data.h"
#include "daemon/export/sink/output_buffer.h"

namespace profd::exporter {
namespace {

// As content security policies name what may be run: by its hash.
std::string HashSource(const HtmlAsset& asset) {
  const std::string digest = absl::HexStringToBytes(ToAbsl(asset.sha256_hex));
  return StrCat("'sha256-", absl::Base64Escape(digest), "'");
}

// Nothing is loaded from anywhere, and no script runs that is not ours, whatever a name holds.
std::string ContentSecurityPolicy() {
  std::string policy = "default-src 'none'; base-uri 'none'; form-action 'none'; script-src";
  for (const HtmlAsset& script : HtmlScripts()) StrAppend(&policy, " ", HashSource(script));
  StrAppend(&policy, "; style-src ", HashSource(HtmlStyle()));
  return policy;
}

// Plain text as it may stand in an element.
std::string EscapeMarkup(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string ScriptElements() {
  std::string elements;
  for (const HtmlAsset& script : HtmlScripts()) {
    StrAppend(&elements, "<script>", script.text, "</script>\n");
  }
  return elements;
}

// The page with each placeholder, in the order they stand in it, replaced.
void AppendPage(const std::array<std::pair<std::string_view, std::string>, 5>& parts,
                OutputBuffer& out) {
  std::string_view page = HtmlPage().text;
  for (const auto& [placeholder, text] : parts) {
    const size_t at = page.find(placeholder);
    out.Append(page.substr(0, at));
    out.Append(text);
    page.remove_prefix(at + placeholder.size());
  }
  out.Append(page);
}

}  // namespace

absl::Status ExportHtmlReport(store::CaptureReader& reader, const report::FindingsReport& findings,
                              ByteSink& sink) {
  ASSIGN_OR_RETURN(const std::string data, HtmlData(reader, findings));
  OutputBuffer out(sink);
  AppendPage({{{"@POLICY@", ContentSecurityPolicy()},
               {"@STYLE@", std::string(HtmlStyle().text)},
               {"@LICENCE@", EscapeMarkup(HtmlChartLicence())},
               {"@DATA@", ForScriptElement(data)},
               {"@SCRIPTS@", ScriptElements()}}},
             out);
  return out.Finish();
}

absl::Status ExportHtmlReport(store::CaptureReader& reader, ByteSink& sink) {
  ASSIGN_OR_RETURN(const report::FindingsReport findings, report::SummarizeFindings(reader, {}));
  return ExportHtmlReport(reader, findings, sink);
}

}  // namespace profd::exporter

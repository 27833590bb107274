// What the HTML report's page is made of: the files in html/ and the chart library, as they were
// when this was built (html/embed.cmake).
#ifndef PROFD_DAEMON_EXPORT_HTML_ASSETS_H_
#define PROFD_DAEMON_EXPORT_HTML_ASSETS_H_

#include <span>
#include <string_view>

namespace profd::exporter {

struct HtmlAsset {
  std::string_view text;
  std::string_view sha256_hex;  // Of `text`.
};

HtmlAsset HtmlPage();   // With the placeholders that report.cc fills.
HtmlAsset HtmlStyle();  // CSS
// In the order that they have to run in; the library first.
std::span<const HtmlAsset> HtmlScripts();
std::string_view HtmlChartLicence();  // Of the chart library; plain text.

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_HTML_ASSETS_H_

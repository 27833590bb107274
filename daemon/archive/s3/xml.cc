#include "daemon/archive/s3/xml.h"

#include <expat.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "daemon/base/str_cat.h"

namespace profd::archive {
namespace {

struct XmlBuild {
  XML_Parser parser = nullptr;
  XmlElement root;
  std::vector<XmlElement> open;  // From the root to the innermost one.
  int elements = 0;
  bool refused = false;

  void Refuse() {
    refused = true;
    XML_StopParser(parser, XML_FALSE);
  }
};

void OnStart(void* user, const XML_Char* name, const XML_Char** /*attributes*/) {
  auto& build = *static_cast<XmlBuild*>(user);
  if (++build.elements > kMaxXmlElements || build.open.size() >= kMaxXmlDepth) {
    return build.Refuse();
  }
  std::string_view local = name;
  // Servers differ in the namespace prefixes that they write.
  if (const size_t colon = local.rfind(':'); colon != std::string_view::npos) {
    local.remove_prefix(colon + 1);
  }
  build.open.push_back({.name = std::string(local), .text = {}, .children = {}});
}

void OnEnd(void* user, const XML_Char* /*name*/) {
  auto& build = *static_cast<XmlBuild*>(user);
  if (build.open.empty()) return;
  XmlElement done = std::move(build.open.back());
  build.open.pop_back();
  if (build.open.empty()) {
    build.root = std::move(done);
  } else {
    build.open.back().children.push_back(std::move(done));
  }
}

void OnText(void* user, const XML_Char* text, int size) {
  auto& build = *static_cast<XmlBuild*>(user);
  if (!build.open.empty()) build.open.back().text.append(text, static_cast<size_t>(size));
}

// Nothing that S3 sends has one; entities are declared there.
void OnDoctype(void* user, const XML_Char*, const XML_Char*, const XML_Char*, int) {
  static_cast<XmlBuild*>(user)->Refuse();
}

struct FreeParser {
  void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
};

}  // namespace

const XmlElement* XmlElement::child(std::string_view child_name) const {
  for (const XmlElement& element : children) {
    if (element.name == child_name) return &element;
  }
  return nullptr;
}

std::string_view XmlElement::child_text(std::string_view child_name) const {
  const XmlElement* const found = child(child_name);
  return found == nullptr ? std::string_view() : std::string_view(found->text);
}

absl::StatusOr<XmlElement> ParseXml(std::string_view text) {
  const std::unique_ptr<std::remove_pointer_t<XML_Parser>, FreeParser> parser(
      XML_ParserCreate(nullptr));
  if (parser == nullptr) return absl::InternalError("Expat cannot make a parser");
  XmlBuild build;
  build.parser = parser.get();
  XML_SetUserData(parser.get(), &build);
  XML_SetElementHandler(parser.get(), OnStart, OnEnd);
  XML_SetCharacterDataHandler(parser.get(), OnText);
  XML_SetStartDoctypeDeclHandler(parser.get(), OnDoctype);
  const XML_Status status =
      XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), /*isFinal=*/1);
  if (status == XML_STATUS_OK && !build.refused) return std::move(build.root);
  return absl::DataLossError(StrCat("the server's answer is not usable XML: ",
                                    build.refused
                                        ? "it has too many or too deep elements, or a DOCTYPE"
                                        : XML_ErrorString(XML_GetErrorCode(parser.get()))));
}

}  // namespace profd::archive

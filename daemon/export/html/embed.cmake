# Writes html_assets.cc: the files of the HTML report's page as bytes.
#
#   cmake -DOUT=html_assets.cc -DPAGE=.. -DSTYLE=.. -DLICENCE=.. "-DSCRIPTS=a.js;b.js" -P embed.cmake

# Appends an array called `name` with the bytes of `file`, and a zero.
function(append_bytes name file)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  # Lines that tools can read.
  string(REPEAT "0x..," 64 line)
  string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
  string(APPEND text "const unsigned char ${name}[] = {\n${bytes}0};\n")
  set(text "${text}" PARENT_SCOPE)
endfunction()

# The initialiser of an HtmlAsset.
function(asset_of name file result)
  file(SHA256 ${file} hash)
  set(${result} "{Text(${name}, sizeof ${name} - 1), \"${hash}\"}" PARENT_SCOPE)
endfunction()

set(text "// Made by daemon/export/html/embed.cmake.\n")
string(APPEND text "#include \"daemon/export/html/assets.h\"\n\nnamespace profd::exporter {\nnamespace {\n\n")
append_bytes(kPage ${PAGE})
append_bytes(kStyle ${STYLE})
append_bytes(kLicence ${LICENCE})
asset_of(kPage ${PAGE} page)
asset_of(kStyle ${STYLE} style)

set(number 0)
set(scripts "")
foreach(script IN LISTS SCRIPTS)
  append_bytes(kScript${number} ${script})
  asset_of(kScript${number} ${script} asset)
  string(APPEND scripts "      ${asset},\n")
  math(EXPR number "${number} + 1")
endforeach()

string(APPEND text "
std::string_view Text(const unsigned char* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

HtmlAsset HtmlPage() { return ${page}; }
HtmlAsset HtmlStyle() { return ${style}; }
std::string_view HtmlChartLicence() { return Text(kLicence, sizeof kLicence - 1); }
std::span<const HtmlAsset> HtmlScripts() {
  static const HtmlAsset scripts[] = {
${scripts}  };
  return scripts;
}

}  // namespace profd::exporter
")
file(WRITE ${OUT} "${text}")

// The text of a file that may be gzip.
#ifndef PROFD_TESTS_IMPORT_UNZIP_H_
#define PROFD_TESTS_IMPORT_UNZIP_H_

#include <zlib.h>

#include <filesystem>
#include <string>
#include <vector>

namespace profd::importer {

inline std::string Unzip(const std::filesystem::path& path) {
  std::string text;
  std::vector<char> buffer(1 << 20);
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return text;
  int bytes = 0;
  while ((bytes = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    text.append(buffer.data(), static_cast<size_t>(bytes));
  }
  gzclose(file);
  return text;
}

}  // namespace profd::importer

#endif  // PROFD_TESTS_IMPORT_UNZIP_H_

#include "tests/archive/s3_server.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "daemon/archive/s3/http.h"
#include "daemon/base/str_cat.h"

namespace profd::archive {
namespace {

[[noreturn]] void Die(const char* why) {
  std::fprintf(stderr, "s3_server: %s\n", why);
  std::abort();
}

}  // namespace

S3Server::S3Server(const std::filesystem::path& folder, std::vector<std::string> arguments) {
  int input[2];
  int output[2];
  if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) Die("no pipes");
  input_ = UniqueFd(input[1]);
  const UniqueFd child_input(input[0]);
  const UniqueFd port(output[0]);
  UniqueFd child_output(output[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  std::vector<std::string> words = {"/usr/bin/python3", "tests/archive/s3_server.py", "--dir",
                                    folder.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  // Tests under a sanitizer preload nothing into it.
  if (posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, argv.data(), environ) != 0) {
    Die("python3 cannot be started");
  }
  posix_spawn_file_actions_destroy(&actions);
  child_output.Reset();
  std::string text;
  char c;
  while (read(port.get(), &c, 1) == 1 && c != '\n') text.push_back(c);
  if (text.empty()) Die("it did not start");
  const bool tls = words.size() > 4 && words[4] == "--tls-cert";
  endpoint_ = StrCat(tls ? "https" : "http", "://127.0.0.1:", text);
}

S3Server::~S3Server() {
  input_.Reset();
  waitpid(pid_, nullptr, 0);
}

void S3Server::Fail(std::string_view json) const {
  HttpSession session({.authorities = {}, .use_proxy = false});
  const auto answer = session.Send(
      {.method = HttpMethod::kPost, .url = endpoint_ + "/_faults", .headers = {}, .bytes = json});
  if (!answer.ok() || answer->status != 200) Die("it takes no faults");
}

std::string S3Server::Log() const {
  HttpSession session({.authorities = {}, .use_proxy = false});
  const auto answer = session.Send({.url = endpoint_ + "/_log", .headers = {}});
  if (!answer.ok()) Die("it has no log");
  return answer->body;
}

CredentialSource::Options ServerCredentials(std::string secret) {
  return {.file = {}, .getenv = [secret = std::move(secret)](const char* name) {
            const std::string_view asked = name;
            if (asked == "AWS_ACCESS_KEY_ID") return std::optional<std::string>("profd-key");
            if (asked == "AWS_SECRET_ACCESS_KEY") return std::optional<std::string>(secret);
            return std::optional<std::string>();
          }};
}

S3Client::Options OptionsFor(const S3Server& server) {
  S3Client::Options options;
  options.bucket = "test";
  options.endpoint = server.endpoint();
  options.first_pause = absl::Milliseconds(1);
  return options;
}

}  // namespace profd::archive

#include "cli/client/endpoints.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "cli/base/errors.h"
#include "cli/client/contexts.h"
#include "cli/client/daemon_client.h"
#include "cli/client/tls_diagnosis.h"
#include "daemon/base/reason.h"
#include "daemon/base/unique_fd.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

GetEnv From(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

absl::StatusOr<std::vector<std::string>> Addresses(const std::optional<std::string>& flag,
                                                   const Variables& variables) {
  const auto settings = ReadClientSettings(flag, std::nullopt, From(variables));
  if (!settings.ok()) return settings.status();
  const auto endpoints = CandidateEndpoints(*settings, From(variables));
  if (!endpoints.ok()) return endpoints.status();
  std::vector<std::string> addresses;
  for (const Endpoint& endpoint : *endpoints) addresses.push_back(endpoint.address);
  return addresses;
}

TEST(CandidateEndpointsTest, TheFlagStandsAloneThenTheVariables) {
  const std::map<std::string, std::string> all = {{"PROFD_ADDRESS", "localhost:7000"},
                                                  {"PROFD_SOCKET_DIR", "/tmp/x"},
                                                  {"XDG_RUNTIME_DIR", "/run/user/7"}};
  EXPECT_THAT(*Addresses("unix:/a/b.sock", all), ElementsAre("unix:/a/b.sock"));
  EXPECT_THAT(*Addresses(std::nullopt, all), ElementsAre("localhost:7000"));
  EXPECT_THAT(*Addresses(std::nullopt, {{"PROFD_SOCKET_DIR", "/tmp/x/"}}),
              ElementsAre("unix:/tmp/x/control.sock"));
}

TEST(CandidateEndpointsTest, WithoutAnySettingTheMachineComesBeforeTheUser) {
  EXPECT_THAT(*Addresses(std::nullopt, {{"XDG_RUNTIME_DIR", "/run/user/7"}}),
              ElementsAre("unix:/run/profd/control.sock", "unix:/run/user/7/profd/control.sock"));
  EXPECT_THAT(*Addresses(std::nullopt, {{"PROFD_ADDRESS", ""}}),
              ElementsAre("unix:/run/profd/control.sock"));
}

TEST(CandidateEndpointsTest, AddressesComeInThreeForms) {
  EXPECT_THAT(*Addresses("unix:///a/b", {}), ElementsAre("unix:/a/b"));
  EXPECT_THAT(*Addresses("./run/control.sock", {}), ElementsAre("unix:./run/control.sock"));
  EXPECT_THAT(*Addresses("[::1]:7000", {}), ElementsAre("[::1]:7000"));
}

TEST(CandidateEndpointsTest, WhatIsNoAddressIsRefused) {
  for (const std::string text :
       {"", "localhost", "localhost:0", "localhost:99999", ":7000", "h:x", "::1:7000"}) {
    EXPECT_THAT(Addresses(text, {}).status(), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
  EXPECT_THAT(Addresses("unix:/" + std::string(108, 'a'), {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(CandidateEndpointsTest, AnotherMachineTakesCertificates) {
  for (const std::string text : {"gpu001:7411", "10.0.0.7:7411", "[fe80::1]:7411", "0.0.0.0:1"}) {
    EXPECT_THAT(Addresses(text, {}).status(), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
    EXPECT_THAT(Addresses(text, {{"PROFD_TLS_CA", "/ca"}}), IsOk()) << text;
  }
  for (const std::string text : {"localhost:1", "127.0.0.7:1", "[::1]:1"}) {
    EXPECT_THAT(Addresses(text, {}), IsOk()) << text;
  }
}

// A file of contexts below a folder of its own, and the variables that lead to it.
class ClientSettingsTest : public testing::Test {
 protected:
  ClientSettingsTest() {
    std::string name = std::filesystem::temp_directory_path() / "profd-settings-XXXXXX";
    folder_ = mkdtemp(name.data());
    variables_["XDG_CONFIG_HOME"] = folder_.string();
    const ContextFile file = {
        .current = "prod",
        .contexts = {{.name = "prod", .nodes = "gpu[1-2]", .tls = ClientTls{.ca_file = "/prod"}},
                     {.name = "lab", .address = "lab:1", .tls = ClientTls{.ca_file = "/lab"}}}};
    EXPECT_THAT(WriteContexts(folder_ / "profd/config", file), IsOk());
  }
  ~ClientSettingsTest() override { std::filesystem::remove_all(folder_); }

  // "address nodes authority"
  std::string Settings(const std::optional<std::string>& address_flag = std::nullopt,
                       const std::optional<std::string>& context_flag = std::nullopt) {
    const auto settings = ReadClientSettings(address_flag, context_flag, From(variables_));
    if (!settings.ok()) return std::string(settings.status().message());
    return settings->address + " " + settings->nodes + " " +
           (settings->tls.has_value() ? settings->tls->ca_file : "-");
  }

  std::filesystem::path folder_;
  Variables variables_;
};

TEST_F(ClientSettingsTest, TheNearestToTheCommandNamesTheDaemon) {
  EXPECT_EQ(Settings(), " gpu[1-2] /prod");
  variables_["PROFD_SOCKET_DIR"] = "/run/x";
  EXPECT_EQ(Settings(), "unix:/run/x/control.sock  /prod");
  variables_["PROFD_CONTEXT"] = "lab";
  EXPECT_EQ(Settings(), "lab:1  /lab");
  variables_["PROFD_ADDRESS"] = "there:2";
  EXPECT_EQ(Settings(), "there:2  /lab");
  EXPECT_EQ(Settings(std::nullopt, "prod"), " gpu[1-2] /prod");
  EXPECT_EQ(Settings("here:3", "prod"), "here:3  /prod");
}

TEST_F(ClientSettingsTest, CertificatesOfTheEnvironmentComeBeforeTheContexts) {
  variables_["PROFD_TLS_CA"] = "/env";
  EXPECT_EQ(Settings(), " gpu[1-2] /env");
  variables_["PROFD_TLS_CERT"] = "/cert";
  EXPECT_THAT(Settings(), HasSubstr("go together"));
  variables_.erase("PROFD_TLS_CA");
  EXPECT_THAT(Settings(), HasSubstr("need PROFD_TLS_CA"));
}

TEST_F(ClientSettingsTest, AContextThatIsNotThereIsAnErrorOfWhoNamedIt) {
  EXPECT_THAT(Settings(std::nullopt, "other"), HasSubstr("--context: there is no context 'other'"));
  variables_["PROFD_CONTEXT"] = "other";
  EXPECT_THAT(Settings(), HasSubstr("PROFD_CONTEXT: there is no context 'other'"));
}

TEST_F(ClientSettingsTest, ABrokenFileIsNoMatterToWhoNeedsNone) {
  std::ofstream(folder_ / "profd/config") << "nonsense\n";
  EXPECT_THAT(Settings(), HasSubstr("config:1: expected"));
  EXPECT_EQ(Settings("unix:/a/b"), "unix:/a/b  -");
}

// A socket that a process of another user listens on, as root can make it.
class SocketOwnerTest : public ::testing::Test {
 protected:
  static constexpr uid_t kOther = 4242;
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "SKIP: only root becomes another user";
    std::string name = std::filesystem::temp_directory_path() / "profd-owner-XXXXXX";
    folder_ = mkdtemp(name.data());
    ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  }
  ~SocketOwnerTest() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }
  // Binds as root, so that the file is root's, and listens as `uid`.
  void ListenAs(uid_t uid) {
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    Path().copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    int ready[2];
    ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (setresuid(uid, uid, uid) != 0 || listen(socket.get(), 8) != 0) _exit(1);
      [[maybe_unused]] const ssize_t written = write(ready[1], "", 1);
      for (;;) pause();
    }
    close(ready[1]);
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
  }
  std::string Path() const { return (folder_ / "control.sock").string(); }
  absl::Status Probe() const {
    return ProbeEndpoint(
        {.address = "unix:" + Path(), .unix_path = Path(), .from = "PROFD_SOCKET_DIR"});
  }

  std::filesystem::path folder_;
  pid_t child_ = -1;
};

TEST_F(SocketOwnerTest, RootsSocketIsTaken) {
  ListenAs(0);
  EXPECT_THAT(Probe(), IsOk());
}

TEST_F(SocketOwnerTest, AListenerOfAnotherUserIsRefused) {
  ListenAs(kOther);
  EXPECT_THAT(Probe(), StatusIs(absl::StatusCode::kPermissionDenied,
                                HasSubstr("(PROFD_SOCKET_DIR) belongs to uid 4242")));
  EXPECT_EQ(ReasonOf(Probe()), kOtherUsersDaemonReason);
  const auto client = DaemonClient::Connect(
      {{.address = "unix:" + Path(), .unix_path = Path(), .from = "--address"}});
  EXPECT_EQ(ReasonOf(client.status()), kOtherUsersDaemonReason);
  EXPECT_EQ(ExitCodeOf(client.status()), kExitRefused);
}

TEST_F(SocketOwnerTest, ASocketFileOfAnotherUserIsRefused) {
  ListenAs(0);
  ASSERT_EQ(chown(Path().c_str(), kOther, kOther), 0);
  EXPECT_EQ(ReasonOf(Probe()), kOtherUsersDaemonReason);
  // So is a link that leads to root's.
  std::filesystem::rename(Path(), folder_ / "other.sock");
  ASSERT_EQ(chown((folder_ / "other.sock").c_str(), 0, 0), 0);
  std::filesystem::create_symlink("other.sock", Path());
  EXPECT_THAT(Probe(), IsOk());
  ASSERT_EQ(lchown(Path().c_str(), kOther, kOther), 0);
  EXPECT_EQ(ReasonOf(Probe()), kOtherUsersDaemonReason);
}

TEST(TlsDiagnosisTest, TheLimitOfOpenFilesIsNamed) {
  Endpoint endpoint;
  endpoint.address = "127.0.0.1:1";
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = ExplainNoConnection(endpoint);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(ReasonOf(status), kLocalReason);
  EXPECT_THAT(std::string(status.message()), HasSubstr("`ulimit -n`"));
}

}  // namespace
}  // namespace profd::cli

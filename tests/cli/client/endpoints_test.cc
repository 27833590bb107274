#include "cli/client/endpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "cli/client/contexts.h"
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

}  // namespace
}  // namespace profd::cli

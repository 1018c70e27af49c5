#include "serve/host_check.h"

#include <doctest/doctest.h>

#include <string>

using namespace spillway::serve;

TEST_CASE("loopback names and the bound address are answered, and no other name") {
  for (const char* host : {"localhost", "LocalHost:8090", "a.localhost", "127.0.0.1", "127.0.0.1:8090", "127.3.2.1:1",
                           "[::1]:8090", "[::1]", "localhost."}) {
    CAPTURE(std::string(host));
    CHECK(is_host_answered(host, "127.0.0.1"));
    CHECK(is_host_answered(host, "192.168.1.5"));
  }
  for (const char* host :
       {"", ":8090", "evil.example", "evil.example:8090", "localhost.evil.example", "127.0.0.1.evil.example",
        "notlocalhost", "192.168.1.6", "[::2]:80", "[::1", "0.0.0.0", "1.127.0.0"}) {
    CAPTURE(std::string(host));
    CHECK_FALSE(is_host_answered(host, "127.0.0.1"));
    CHECK_FALSE(is_host_answered(host, "192.168.1.5"));
  }
  CHECK(is_host_answered("192.168.1.5:8090", "192.168.1.5"));
  CHECK(is_host_answered("trainer.lan:8090", "Trainer.lan"));
}

TEST_CASE("an address of this machine alone is told from those that others reach") {
  for (const char* host : {"127.0.0.1", "127.8.0.1", "::1", "LocalHost"}) CHECK(is_loopback_host(host));
  for (const char* host : {"0.0.0.0", "::", "192.168.1.5", "trainer.lan", "127.0.0.1.evil.example"})
    CHECK_FALSE(is_loopback_host(host));
}

TEST_CASE("a server of all addresses is answered by any address, and by no name of elsewhere") {
  for (const char* bound : {"0.0.0.0", "::"}) {
    CHECK(is_host_answered("192.168.1.5:8090", bound));
    CHECK(is_host_answered("[fe80::1]:8090", bound));
    CHECK_FALSE(is_host_answered("evil.example", bound));
  }
}

# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "ipaddr"

# PROXY headers, versions 1 and 2. Every case is given at once with bytes behind it, in two pieces cut at every
# position, and byte by byte.
class HttpProxyTest < Minitest::Test
  SIGNATURE = "\r\n\r\n\0\r\nQUIT\n".b

  class << self
    # @param address [String, nil] the client's; nil: the connection's own address
    def introduces(name, bytes, address)
      define_case(name, bytes) do |outcome|
        expected = address && IPAddr.new(address).then { |ip| ip.ipv4? ? ip.ipv4_mapped : ip }.hton
        assert_equal({address: expected, consumed: bytes.bytesize}, outcome)
        assert_equal outcome, parse("#{bytes}GET /".b), "what follows was looked at"
        (0...bytes.bytesize).each { |size| assert_equal :more, parse(bytes.byteslice(0, size)) }
      end
    end

    def refuses(name, bytes, reason)
      define_case(name, bytes) do |outcome|
        assert_equal :invalid, outcome.first
        assert_match reason, outcome.last
        assert_equal outcome, parse("#{bytes}\r\n".b)
      end
    end

    # A header of version 2.
    def block(command, kind, data, size: data.bytesize) = SIGNATURE + [0x20 | command, kind, size].pack("CCn") + data.b

    def four(client, server = "198.51.100.7") = IPAddr.new(client).hton + IPAddr.new(server).hton + [56_324, 443].pack("nn")

    alias_method :six, :four

    private

    def define_case(name, bytes, &check)
      bytes = bytes.b
      define_method(:"test_#{name.tr(" ", "_")}") do
        outcome = parse(bytes)
        instance_exec(outcome, &check)
        cuts = (1...bytes.bytesize).to_a
        cuts.each_slice(1 + cuts.size / 300) { |cut, *| assert_equal outcome, parse(bytes, cuts: [cut]), "cut at #{cut}" }
        assert_equal outcome, parse(bytes, cuts:), "byte by byte" if cuts.size < 1_000
      end
    end
  end

  # ---- version 1 ----

  introduces "TCP over IPv4", "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n", "192.0.2.1"
  introduces "TCP over IPv6", "PROXY TCP6 2001:db8::1 2001:DB8::2 0 65535\r\n", "2001:db8::1"
  introduces "the longest addresses", "PROXY TCP6 #{"ffff:" * 7}ffff #{"ffff:" * 7}ffff 65535 65535\r\n", "#{"ffff:" * 7}ffff"
  introduces "IPv4 as mapped", "PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", "192.0.2.1"
  introduces "what it does not know", "PROXY UNKNOWN\r\n", nil
  introduces "what it does not know with more", "PROXY UNKNOWN ffff::1 \0\r whatever\r\n", nil
  introduces "a line as long as can be", "PROXY UNKNOWN #{"x" * 91}\r\n", nil

  refuses "a line that is too long", "PROXY UNKNOWN #{"x" * 92}\r\n", /no end within 107 bytes/
  refuses "a line without an end", "PROXY TCP4 #{"1" * 200}", /no end within 107 bytes/
  refuses "a line feed alone", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n", /CRLF/
  refuses "a line feed within", "PROXY UNKNOWN \n\r\n", /CRLF/
  refuses "no words", "PROXY \r\n", /neither TCP4/
  refuses "another protocol", "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n", /neither TCP4/
  refuses "TCP5", "PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n", /neither TCP4/
  refuses "small letters", "proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n", /does not begin with a PROXY header/
  refuses "UNKNOWN with a letter more", "PROXY UNKNOWNS\r\n", /neither TCP4/
  refuses "nothing behind TCP4", "PROXY TCP4\r\n", /neither TCP4/
  refuses "two blanks", "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n", /address that is none/
  refuses "a blank at the end", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n", /port that is none/
  refuses "one word more", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n", /port that is none/
  refuses "one word less", "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n", /port that is none/
  refuses "an address of the other family", "PROXY TCP4 ::1 192.0.2.2 1 2\r\n", /address that is none/
  refuses "a server's address of the other family", "PROXY TCP6 ::1 192.0.2.2 1 2\r\n", /address that is none/
  refuses "zeros ahead of an address", "PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n", /address that is none/
  refuses "an address with a zero byte", "PROXY TCP4 192.0.2.1\0 192.0.2.2 1 2\r\n", /address that is none/
  refuses "three numbers", "PROXY TCP4 192.0.2 192.0.2.2 1 2\r\n", /address that is none/
  refuses "a name", "PROXY TCP4 localhost 192.0.2.2 1 2\r\n", /address that is none/
  refuses "an address with a zone", "PROXY TCP6 fe80::1%eth0 ::2 1 2\r\n", /address that is none/
  ["65536", "01", "-1", "+1", "0x1", "1a", "999999", ""].each do |port|
    refuses "the port #{port}", "PROXY TCP4 192.0.2.1 192.0.2.2 #{port} 2\r\n", /port that is none/
    refuses "the server's port #{port}", "PROXY TCP4 192.0.2.1 192.0.2.2 1 #{port}\r\n", /port that is none/
  end

  # ---- version 2 ----

  introduces "a block of IPv4", block(1, 0x11, four("192.0.2.1")), "192.0.2.1"
  introduces "a block of IPv6", block(1, 0x21, six("2001:db8::1", "2001:db8::2")), "2001:db8::1"
  introduces "a block of datagrams", block(1, 0x12, four("192.0.2.1")), "192.0.2.1"
  introduces "a block of a unix socket", block(1, 0x31, "/run/a".ljust(216, "\0")), "127.0.0.1"
  introduces "a block with more behind the addresses", block(1, 0x11, "#{four("192.0.2.1")}\x04\x00\x03abc".b), "192.0.2.1"
  introduces "a block as long as can be", block(1, 0x11, four("192.0.2.1").ljust(8192, "x")), "192.0.2.1"
  introduces "a health check", block(0, 0x00, ""), nil
  introduces "a health check with addresses", block(0, 0x11, four("192.0.2.1")), nil
  introduces "a health check of an unknown kind", block(0, 0xff, "whatever"), nil
  introduces "a block without addresses", block(1, 0x00, ""), nil
  introduces "a block of an unspecified transport", block(1, 0x10, four("192.0.2.1")), nil
  introduces "a block of an unspecified family", block(1, 0x01, "abc"), nil

  refuses "a block of version 1", SIGNATURE + "\x11\x11\0\x0c".b + four("192.0.2.1"), /version/
  refuses "another command", block(2, 0x11, four("192.0.2.1")), /command/
  refuses "another family", block(1, 0x41, four("192.0.2.1")), /kind of address/
  refuses "another transport", block(1, 0x13, four("192.0.2.1")), /kind of address/
  refuses "too short for IPv4", block(1, 0x11, four("192.0.2.1").byteslice(0, 11)), /too short/
  refuses "too short for IPv6", block(1, 0x21, four("192.0.2.1")), /too short/
  refuses "too short for a unix socket", block(1, 0x31, "x" * 215), /too short/
  refuses "a block that is too long", block(1, 0x11, "", size: 8193), /too long/
  refuses "a block without its last line feed", "#{SIGNATURE.chop}\r".b, /does not begin with a PROXY header/

  # ---- neither ----

  refuses "a request", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", /does not begin with a PROXY header/
  refuses "a word that is longer", "PROXYING\r\n", /does not begin with a PROXY header/
  refuses "TLS", "\x16\x03\x01\x02\x00\x01", /does not begin with a PROXY header/

  private

  def parse(...) = NeverBlock::Server::Head.parse_proxy(...)
end

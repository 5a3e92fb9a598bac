# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# RFC 9110 §12.5.3.
class CacheAcceptEncodingTest < Minitest::Test
  AcceptEncoding = NeverBlock::Cache::AcceptEncoding

  # Field value => the codings it accepts.
  FOLDED = {
    "" => "", "gzip" => "gzip", "GZip" => "gzip", "x-gzip" => "gzip", "x-compress" => "compress", "gzip, deflate, br, zstd" => "br,deflate,gzip,zstd",
    "br,gzip" => "br,gzip", " gzip ,\tbr " => "br,gzip", "gzip,,br," => "br,gzip", "gzip;q=0.5, br;q=1.0" => "br,gzip",
    "gzip ; q=0.001" => "gzip", "gzip;Q=1" => "gzip", "gzip;q=0" => "", "gzip;q=0.000, br" => "br", "gzip;q=0., br" => "br", "gzip;q=1." => "gzip",
    "identity" => "", "identity, gzip" => "gzip", "gzip, identity;q=0.5" => "gzip", "gzip, identity;q=0" => "!identity,gzip",
    "*" => "*", "gzip, *" => "*,gzip", "*, gzip;q=0" => "!gzip,*", "*;q=0" => "!identity", "gzip, *;q=0" => "!identity,gzip",
    "gzip, identity, *;q=0" => "gzip", "gzip;q=1.0, identity; q=0.5, *;q=0" => "gzip", "gzip, gzip" => "gzip", "gzip;q=0, gzip;q=0.0" => ""
  }.freeze

  def test_codings
    FOLDED.each { |text, folded| assert_equal folded, AcceptEncoding.fold(text, nil), text }
  end

  # Field value => what it accepts of br and gzip.
  KNOWN = {
    "" => "", "gzip, deflate, br, zstd" => "br,gzip", "gzip" => "gzip", "deflate" => "", "x-gzip" => "gzip", "*" => "br,gzip",
    "*, gzip;q=0" => "br", "*;q=0" => "!identity", "*;q=0, gzip" => "!identity,gzip", "br;q=0.1, gzip;q=0" => "br", "identity;q=0" => "!identity"
  }.freeze

  def test_known_codings
    KNOWN.each { |text, folded| assert_equal folded, AcceptEncoding.fold(text, %w[gzip br]), text }
    assert_equal "", AcceptEncoding.fold("gzip", [])
    assert_equal "", AcceptEncoding.fold("gzip, identity", ["identity"])
  end

  # An app may take these for anything.
  def test_invalid_fields_share_with_none_but_themselves
    ["gzip;q=abc", "gzip;q=2", "gzip;q=1.1", "gzip;q=0.1234", "gzip;q=-1", "gzip; q = 1", "gzip;level=9", "gzip;q=1;x=y", "gz ip", "gzip;", "gzip q=1",
      "gzip;q=0, gzip", "gzip/br", "!gzip, *", "!identity,gzip", "\"gzip\"", "gz\xffip", "gzip\x00", ";q=0", "gzip\nbr", "a," * 1_000].each do |text|
      folded = AcceptEncoding.fold(text, nil)
      assert_equal "?#{text}".b, folded.b
      assert_equal folded, AcceptEncoding.fold(" #{text} ", ["gzip"])
      refute_includes FOLDED.values + KNOWN.values, folded
    end
  end

  def test_hostile_fields_take_linear_time
    ["a" * 500_000, "a, " * 100_000 + "@", " " * 500_000 + "@", "gzip;" + " " * 900].each { |text| AcceptEncoding.fold(text, nil) }
  end
end

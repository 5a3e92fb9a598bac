# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

# RFC 9110 §5.6.7.
class CacheHttpDateTest < Minitest::Test
  HttpDate = NeverBlock::Cache::HttpDate

  def test_the_three_formats
    ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
      "SUN, 06 NOV 1994 08:49:37 gmt", "sunday, 06-nov-94 08:49:37 gmt", "sun nov 06 08:49:37 1994"].each do |text|
      assert_equal 784_111_777.0, HttpDate.parse(text), text
    end
    assert_instance_of Float, HttpDate.parse("Sun, 06 Nov 1994 08:49:37 GMT")
  end

  def test_each_day_of_some_years_is_that_of_time
    [1600, 1899, 1900, 1968, 1970, 1999, 2000, 2023, 2024, 2100, 9999].each do |year|
      time = Time.utc(year, 1, 1, 23, 59, 58)
      while time.year == year
        assert_equal time.to_i.to_f, HttpDate.parse(time.strftime("%a, %d %b %Y %H:%M:%S GMT")), time
        time += 86_400
      end
    end
  end

  def test_the_epoch_and_its_neighbours
    assert_equal 0.0, HttpDate.parse("Thu, 01 Jan 1970 00:00:00 GMT")
    assert_equal(-1.0, HttpDate.parse("Wed, 31 Dec 1969 23:59:59 GMT"))
    assert_equal Time.utc(2038, 1, 19, 14, 14, 8).to_f, HttpDate.parse("Tue, 19 Jan 2038 14:14:08 GMT")
  end

  def test_the_day_of_the_week_is_not_compared
    assert_equal 784_111_777.0, HttpDate.parse("Mon, 06 Nov 1994 08:49:37 GMT")
  end

  def test_a_leap_second_is_the_one_before
    assert_equal HttpDate.parse("Sat, 31 Dec 2016 23:59:59 GMT"), HttpDate.parse("Sat, 31 Dec 2016 23:59:60 GMT")
  end

  # "more than 50 years in the future" is a year in the past.
  def test_two_digits_of_a_year
    now = Time.utc(2026, 11, 20, 12).to_f
    {
      "Thursday, 18-Aug-50 02:01:18 GMT" => 2050, "Friday, 20-Nov-76 12:00:00 GMT" => 2076,
      "Friday, 20-Nov-76 12:00:01 GMT" => 1976, "Friday, 21-Nov-76 00:00:00 GMT" => 1976,
      "Saturday, 01-Jan-77 00:00:00 GMT" => 1977, "Sunday, 06-Nov-94 08:49:37 GMT" => 1994,
      "Monday, 01-Jan-00 00:00:00 GMT" => 2000, "Monday, 29-Feb-24 00:00:00 GMT" => 2024
    }.each { |text, year| assert_equal year, Time.at(HttpDate.parse(text, now:)).utc.year, text }
  end

  def test_two_digits_of_a_year_around_a_century_and_on_a_leap_day
    late = Time.utc(2099, 6, 1).to_f
    assert_equal 2105, Time.at(HttpDate.parse("Monday, 01-Jun-05 00:00:00 GMT", now: late)).utc.year
    leap_day = Time.utc(2024, 2, 29).to_f
    assert_equal 2074, Time.at(HttpDate.parse("Monday, 28-Feb-74 00:00:00 GMT", now: leap_day)).utc.year
    assert_equal 1974, Time.at(HttpDate.parse("Monday, 01-Mar-74 00:00:00 GMT", now: leap_day)).utc.year
  end

  INVALID = [
    nil, "", "0", "-1", "foo", "Thu, 18 Aug 2050 02:01:18 UTC", "Thu, 18 Aug 2050 02:01:18 AEST",
    "Thu, 18 Aug 2050 02:01:18", "Thu, 18 Aug 2050 02:01:18 +0000", "Thu, 18 Aug 50 02:01:18 GMT",
    "Thu 18 Aug 2050 02:01:18 GMT", "Thu, 18  Aug  2050 02:01:18 GMT", "Thu, 18-Aug-2050 02:01:18 GMT",
    "Thu, 18 Aug 2050 02.01.18 GMT", "Thu, 18 Aug 2050 2:01:18 GMT", "Thu, 8 Aug 2050 02:01:18 GMT",
    "Thu, 00 Aug 2050 02:01:18 GMT", "Thu, 32 Aug 2050 02:01:18 GMT", "Thu, 31 Apr 2050 02:01:18 GMT",
    "Thu, 29 Feb 2023 02:01:18 GMT", "Thu, 29 Feb 2100 02:01:18 GMT", "Thu, 30 Feb 2024 02:01:18 GMT",
    "Thu, 18 Aug 2050 24:00:00 GMT", "Thu, 18 Aug 2050 23:60:00 GMT", "Thu, 18 Aug 2050 23:00:61 GMT",
    "Thu, 18 Abc 2050 02:01:18 GMT", "Abc, 18 Aug 2050 02:01:18 GMT", " Thu, 18 Aug 2050 02:01:18 GMT",
    "Thu, 18 Aug 2050 02:01:18 GMT ", "Thu, 18 Aug 2050 02:01:18 GMT\n", "Thu, 18 Aug -050 02:01:18 GMT",
    "Thu, 18 Aug 20５0 02:01:18 GMT", "Thu, 18 Aug 2050 02:01:18 GMT, Thu, 18 Aug 2050 02:01:18 GMT",
    "Thursday, 31-Jun-50 02:01:18 GMT", "Thursday, 18-Aug-2050 02:01:18 GMT", "Thu, 18-Aug-50 02:01:18 GMT",
    "Sun Nov 31 08:49:37 1994", "Sun Nov 6 08:49:37 1994", "Sun Nov   08:49:37 1994", "Sun Nov  0 08:49:37 1994",
    "2050-08-18T02:01:18Z", "\xff\xff, 18 Aug 2050 02:01:18 GMT", "Thu, 18 Aug 2050 02:01:18 GMT" * 100_000,
    ["Thu, 18 Aug 2050 02:01:18 GMT", "Thu, 18 Aug 2050 02:01:19 GMT"]
  ].freeze

  def test_all_else_is_invalid
    INVALID.each { |text| assert_nil HttpDate.parse(text), text.inspect[0, 100] }
  end

  def test_one_line_in_a_list
    assert_equal 784_111_777.0, HttpDate.parse(["Sun, 06 Nov 1994 08:49:37 GMT"])
  end

  def test_format
    assert_equal "Sun, 06 Nov 1994 08:49:37 GMT", HttpDate.format(784_111_777)
    assert_equal "Sun, 06 Nov 1994 08:49:37 GMT", HttpDate.format(784_111_777.9)
    assert_equal "Sun, 06 Nov 1994 08:49:37 GMT", HttpDate.format(Time.new(1994, 11, 6, 10, 49, 37, "+02:00"))
  end

  def test_what_is_formatted_can_be_parsed
    random = Random.new(Minitest.seed)
    1_000.times do
      seconds = random.rand(-10**10..10**11)
      assert_equal seconds.to_f, HttpDate.parse(HttpDate.format(seconds)), HttpDate.format(seconds)
    end
  end
end

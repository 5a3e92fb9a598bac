# frozen_string_literal: true

require_relative "../application_system_test_case"

class TrafficTest < ApplicationSystemTestCase
  COUNTS = %i[gets cacheable repeats same_client].freeze

  test "the report counts GETs that can be cached, that repeat, and that repeat from the same client" do
    url = "/products?unseen=#{SecureRandom.hex}"
    before = counts
    %w[ann ann bob ann].each { |name| get(url, "HTTP_USER_AGENT" => name) }
    get("/report")
    assert_equal [5, 4, 3, 2], counts.zip(before).map { |now, earlier| now - earlier }
  end

  test "the page has the three percentages" do
    2.times { get("/products") }
    visit "/traffic"
    report = Catalogue::TRAFFIC.report # with one request more: the page's own
    assert_text(/that can be cached .* % of GETs/)
    assert_text(/that repeat .* #{Regexp.escape(format("%.1f", report.repeat_percent))} % of those/)
    assert_text(/that repeat from the same client .* #{Regexp.escape(format("%.1f", report.same_client_percent))} % of those/)
  end

  private

  def counts = Catalogue::TRAFFIC.report.to_h.values_at(*COUNTS)
end

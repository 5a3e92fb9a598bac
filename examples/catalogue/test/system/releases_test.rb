# frozen_string_literal: true

require_relative "../application_system_test_case"
require "open3"
require "tmpdir"

# Processes of two releases side by side, with the same folders.
class ReleasesTest < ApplicationSystemTestCase
  # A visitor's request is for NeverBlock::Cache. One with a cookie passes it, and is for the store of actions.
  ASK = <<~'RUBY'
    statuses = [["/products"], ["/products", {"HTTP_COOKIE" => "name=Ann"}], ["/assets/shop-0a1b2c3d.js"]].map do |path, headers|
      Rails.application.call(Rack::MockRequest.env_for("http://example.org#{path}", headers.to_h)).first
    end
    puts "#{ApplicationController.calls["products#index"].value} calls, #{statuses.join(" ")}"
  RUBY

  test "a release makes its own pages, and the other one's stay" do
    Dir.mktmpdir do |releases|
      assert_equal "1 calls, 200 200 404", ask("one", releases)
      FileUtils.mkdir_p("#{releases}/old/public/assets")
      File.write("#{releases}/old/public/assets/shop-0a1b2c3d.js", "")
      File.utime(0, 0, "#{releases}/old/public/assets/shop-0a1b2c3d.js")
      assert_equal "1 calls, 200 200 200", ask("two", releases), "with the asset of the old release"
      assert_equal "0 calls, 200 200 200", ask("one", releases)
    end
  end

  private

  def ask(revision, releases)
    environment = {"NEVERBLOCK_REVISION" => revision, "RELEASES" => releases}
    output, status = Open3.capture2e(environment, RbConfig.ruby, "-W0", "bin/rails", "runner", ASK, chdir: Rails.root.to_s)
    assert status.success?, output
    output.lines(chomp: true).last
  end
end

# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

class CacheRequestOptionsTest < Minitest::Test
  RequestOptions = NeverBlock::Cache::RequestOptions

  def test_defaults
    options = RequestOptions.new
    assert_equal [:bypass, [], false, nil], [options.credentials, options.credential_entries, options.trusted, options.scheme]
    assert_equal({ignore_params: [], sort_query: false, trusted: false, scheme: nil}, options.key)
  end

  def test_values
    options = RequestOptions.new(credentials: :ignore, credential_headers: ["X-Tenant"], ignore_params: ["utm"], sort_query: true, trusted: true, scheme: "https")
    assert_equal [:ignore, ["HTTP_X_TENANT"], true, "https"], [options.credentials, options.credential_entries, options.trusted, options.scheme]
    assert_equal({ignore_params: ["utm"], sort_query: true, trusted: true, scheme: "https"}, options.key)
    assert_predicate options, :frozen?
  end

  def test_invalid_values
    {
      credentials: [nil, :share, "bypass"], credential_headers: ["x", [1], [""], nil], ignore_params: ["utm", [:utm], nil], sort_query: [nil, 1],
      trusted: ["yes", nil], scheme: ["HTTP", "ftp", :http]
    }.each do |name, values|
      values.each do |value|
        error = assert_raises(NeverBlock::ConfigurationError, "#{name} #{value.inspect}") { RequestOptions.new(name => value) }
        assert_includes error.message, "#{name}: #{value.inspect} is not"
      end
    end
  end

  def test_later_changes_of_a_list_do_not_count
    list = ["utm"]
    options = RequestOptions.new(ignore_params: list)
    list << "a"
    assert_equal ["utm"], options.key[:ignore_params]
  end
end

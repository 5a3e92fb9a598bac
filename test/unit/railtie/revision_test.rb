# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require "neverblock/cache"
require "neverblock/railtie/revision"

# Which release of an app this is.
class RailtieRevisionTest < Minitest::Test
  def test_our_own_variable_goes_first
    assert_equal "own", find({"KAMAL_VERSION" => "kamal", "NEVERBLOCK_REVISION" => "own"})
  end

  def test_each_known_variable
    %w[KAMAL_VERSION HEROKU_SLUG_COMMIT HEROKU_BUILD_COMMIT RENDER_GIT_COMMIT GIT_REVISION SOURCE_VERSION].each do |name|
      assert_equal "4f2a91c", find({name => "4f2a91c"}, file: "of a file")
    end
  end

  def test_a_file_that_a_deployment_has_written
    assert_equal "4f2a91c", find({}, file: "4f2a91c\n")
    assert_nil find({})
  end

  def test_what_can_be_no_revision_is_left_out
    assert_equal "4f2a91c", find({"KAMAL_VERSION" => "", "GIT_REVISION" => "not a revision"}, file: "4f2a91c")
    assert_nil find({}, file: "x" * 5_000)
    assert_nil find({}, file: "\xff\n".b)
  end

  private

  def find(env, file: nil)
    Dir.mktmpdir do |root|
      File.binwrite(File.join(root, "REVISION"), file) if file
      NeverBlock::Railtie::Revision.find(root:, env:)
    end
  end
end

# frozen_string_literal: true

ActiveRecord::Schema[8.1].define(version: 1) do
  create_table :products, force: :cascade do |table|
    table.string :name, null: false
    table.integer :price, null: false # cents
    table.timestamps
  end
end

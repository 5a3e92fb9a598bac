class CreateNotes < ActiveRecord::Migration[7.2]
  def change
    create_table :notes do |table|
      table.string :title, null: false
      table.jsonb :details, null: false, default: {}
      table.timestamps
    end
    create_table :pictures, &:timestamps
  end
end
